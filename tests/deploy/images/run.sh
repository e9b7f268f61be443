#!/usr/bin/env bash
# Builds the images of both services from the tree and from Debian's packages,
# and runs the services from them with the chart's command lines.
#
# BAZEL names the command to run instead of "bazel", options included.
set -euo pipefail

cd "$(dirname "$0")/../../.."
for tool in mmdebstrap buildah go; do
  if ! command -v "$tool" >/dev/null; then
    echo "$tool is not installed: the images are not built"
    exit 0
  fi
done
if ((EUID != 0)) || ! unshare --mount --net true 2>/dev/null; then
  echo "not root, or no namespaces here: the images are not built"
  exit 0
fi
scratch=$(mktemp -d "${TMPDIR:-/tmp}/bole_images_test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
(
  cd tests/deploy/helm/render
  GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS='' \
    go build -o "$scratch/render" .
)
deploy/images.sh "$scratch/out"
BOLE_RENDER=$scratch/render tests/deploy/images/images_test.py "$scratch/out"
