#!/usr/bin/env bash
# Packs programs with the libraries that they need into one folder, which runs on
# another machine.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: deploy/bundle.sh OUT TARGET...

Builds the Bazel TARGETs (//worker_service:bole-worker, or a test) and copies
into the folder OUT

  bin/NAME   each program, stripped; a test under its own name
  lib/       the shared libraries that they load, but for those of the C library
             and of CUDA, which the other machine has

Start them with LD_LIBRARY_PATH=OUT/lib. The other machine needs a C library as
new as this one's.

BAZEL names the command to run instead of "bazel", options included.
EOF
}

case ${1:-} in
  -h | --help) usage; exit 0 ;;
esac
(($# >= 2)) || { usage >&2; exit 2; }
out=$(realpath -m "$1")
shift

cd "$(dirname "$0")/.."
read -ra bazel <<<"${BAZEL:-bazel}"
"${bazel[@]}" build --ui_event_filters=-info --show_result=0 \
  -- "$@"

rm -rf "$out"
mkdir -p "$out/bin" "$out/lib"
for target in "$@"; do
  path=${target#//}
  package=${path%%:*}
  name=${path##*:}
  strip -o "$out/bin/$name" "bazel-bin/$package/$name"
done

# "libfoo.so.1 => /usr/lib/libfoo.so.1 (0x...)"
ldd "$out"/bin/* | awk '/=> \// {print $3}' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux.*|libresolv)\.so' |
  grep -vE '/lib(cublas|cublasLt|cudart|nccl|cuda)\.so' |
  while read -r library; do
    strip -o "$out/lib/$(basename "$library")" "$(realpath "$library")"
  done

programs=("$out"/bin/*)
echo "$(du -sh "$out" | cut -f1) in $out: ${programs[*]##*/}"
echo "run with LD_LIBRARY_PATH=$out/lib"
