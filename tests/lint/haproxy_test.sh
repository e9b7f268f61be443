#!/usr/bin/env bash
# HAProxy reads its configuration without an error or a warning, and refuses
# one with a mistake.
set -euo pipefail
# shellcheck source=tests/lint/source_root.sh
source "$(dirname "$0")/source_root.sh"

haproxy=$(PATH=$PATH:/usr/sbin command -v haproxy) ||
  fail 'haproxy is not installed: deploy/install_packages.sh'
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=bole.test \
  -keyout "$scratch/key" -out "$scratch/cert" 2>/dev/null
cat "$scratch/cert" "$scratch/key" >"$scratch/pem"

# accepts FILE: whether haproxy does, warnings being errors.
accepts() {
  BOLE_PROXY_PEM=$scratch/pem "$haproxy" -c -dW -f "$1" >"$scratch/said" 2>&1
}

accepts "$root/deploy/haproxy.cfg" || fail "$(cat "$scratch/said")"
sed 's/proto h2/proto h4/' "$root/deploy/haproxy.cfg" >"$scratch/wrong.cfg"
! accepts "$scratch/wrong.cfg" || fail 'a wrong configuration is accepted'
