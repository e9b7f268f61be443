#!/usr/bin/env bash
# Checks the Helm chart: renders it with the libraries that Helm uses, holds each
# object against Kubernetes' schemas, and the whole against what is kept in
# tests/golden/helm.
#
# usage: run.sh [--remake]
#
#   --remake  write tests/golden/helm anew
#
# Go's libraries are Debian's. The schemas come from the registry that npm is
# configured for, in the versions of the lock file, into a folder that goes away.
set -euo pipefail

root=$(cd "$(dirname "$0")/../../.." && pwd)
case ${1:-} in
  '') export BOLE_REMAKE= ;;
  --remake) export BOLE_REMAKE=1 ;;
  *) sed -n '2,13p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2 ;;
esac
for tool in go npm; do
  if ! command -v "$tool" >/dev/null; then
    echo "$tool is not installed: the chart is not checked"
    exit 0
  fi
done
scratch=$(mktemp -d "${TMPDIR:-/tmp}/bole_charts.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# What Debian installs needs no modules.
export GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS=
(
  cd "$root/tests/deploy/helm/render"
  [[ -z $(gofmt -l .) ]] || { gofmt -d .; exit 1; }
  go vet .
  go test .
  go build -o "$scratch/render" .
)

cp "$root"/tests/deploy/helm/{.npmrc,*.json,*.mjs} "$scratch"
cd "$scratch"
npm ci --ignore-scripts --silent
export BOLE_ROOT=$root BOLE_RENDER=$scratch/render
node --test
