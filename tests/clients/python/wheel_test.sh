#!/usr/bin/env bash
# Builds the wheel of the Python SDK, installs it into an environment of its own,
# and runs the SDK's tests and examples from there, and what is told of TLS and
# tokens. Nothing is downloaded.
set -euo pipefail

scratch=$(mktemp -d "${TEST_TMPDIR:-/tmp}/wheel.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
# Debian's, which has Debian's grpcio.
python=/usr/bin/python3
export PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1
export PYTHONDONTWRITEBYTECODE=1 GRPC_VERBOSITY=ERROR PYTHONUNBUFFERED=1

# The build writes beside the sources.
for path in clients/python proto/bole.proto third_party/googleapis \
  common/version.h LICENSE; do
  cp -rL --parents "$path" "$scratch"
done
"$python" -m build --no-isolation --wheel --outdir "$scratch" \
  "$scratch/clients/python" >"$scratch/build.log" 2>&1 ||
  { cat "$scratch/build.log" >&2; exit 1; }

"$python" -m venv --without-pip --system-site-packages "$scratch/venv"
python=$scratch/venv/bin/python
"$python" -m pip install --quiet --no-deps --no-index "$scratch"/bole-*.whl

installed=$(cd "$scratch/venv" &&
  bin/python -c 'import bole; print(bole.__file__)')
[[ $installed == "$scratch"/venv/* ]] ||
  { echo "FAILED: not the installed package: $installed" >&2; exit 1; }

"$python" tests/clients/python/sdk_test.py
"$python" tests/clients/python/examples_test.py
"$python" tests/clients/python/secured_test.py
