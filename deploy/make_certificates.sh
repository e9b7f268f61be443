#!/usr/bin/env bash
# Certificates to try TLS with, of an authority of their own.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: deploy/make_certificates.sh OUT [NAME...]

Makes an authority and, for each NAME, a certificate of it with its private key:
OUT/ca.pem, OUT/ca.key, OUT/NAME.pem, OUT/NAME.key. Without NAMEs these are
bole-scheduler, bole-worker and client. Each certificate is good for its NAME, and
for localhost, 127.0.0.1 and ::1, as server and as client, for 90 days.

An authority that is in OUT already signs again, so that certificates can be
renewed, or added. Whoever has ca.key can make himself anybody: keep it elsewhere
than the services.
EOF
}

case ${1:-} in
  -h | --help) usage; exit 0 ;;
  '' | -*) usage >&2; exit 2 ;;
esac
out=$1
shift
(($# > 0)) || set -- bole-scheduler bole-worker client

umask 077
mkdir -p "$out"
new=$(mktemp -d "$out/new.XXXXXX")
trap 'rm -rf "$new"' EXIT

# quietly COMMAND...: what it says is told if it fails.
quietly() {
  "$@" >"$new/log" 2>&1 || { cat "$new/log" >&2; exit 1; }
}

if [[ ! -e $out/ca.key ]]; then
  quietly openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
    -days 3650 -subj "/CN=Bole's own authority" \
    -addext keyUsage=critical,keyCertSign,cRLSign \
    -keyout "$new/ca.key" -out "$new/ca.pem"
  mv "$new/ca.key" "$new/ca.pem" "$out"
fi

for name in "$@"; do
  quietly openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
    -subj "/CN=$name" -keyout "$new/$name.key" -out "$new/$name.csr"
  cat >"$new/extensions" <<EOF
basicConstraints = critical, CA:false
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = DNS:$name, DNS:localhost, IP:127.0.0.1, IP:::1
EOF
  quietly openssl x509 -req -in "$new/$name.csr" -days 90 \
    -CA "$out/ca.pem" -CAkey "$out/ca.key" -CAcreateserial \
    -CAserial "$new/serial" -extfile "$new/extensions" -out "$new/$name.pem"
  mv "$new/$name.key" "$new/$name.pem" "$out"
done
chmod 644 "$out"/*.pem
echo "certificates of $out/ca.pem: $*"
echo "next: deploy/SECURITY.md, \"On one machine, to try it\""
