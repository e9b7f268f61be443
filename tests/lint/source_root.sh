# Sourced by the tests of this folder: sets `root` to the source tree, also when
# Bazel runs the test among symbolic links, and `scratch` to an empty folder
# that goes away at the end.
# shellcheck shell=bash
root=$(dirname "$(readlink -f "$0")")/../..
root=$(cd "$root" && pwd)
scratch=$(mktemp -d "${TEST_TMPDIR:-/tmp}/lint.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
export root scratch

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
export -f fail
