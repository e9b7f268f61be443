#!/usr/bin/env bash
# Builds the images of deploy/docker/Dockerfile without a registry: their base
# comes from Debian's packages, their programs from the tree.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: deploy/images.sh [--cuda BASE] [--tag TAG] OUT

Makes in the folder OUT

  NAME.tar    bole-scheduler and bole-worker as OCI images, for "skopeo copy",
              "podman load" or "ctr images import"
  NAME.root/  the same as folders, which chroot and systemd-nspawn run
  programs/   what is in them, as deploy/bundle.sh packs it

and prints their sizes. The base has Debian 12's C library, bash and coreutils,
and is downloaded from the mirrors that apt is configured for.

  --cuda BASE  also bole-worker-cuda, for programs that are built with CUDA: on
               the image BASE, a Debian 12 with the libraries of CUDA
  --tag TAG    the images' tag; the version of the tree if left out

Needs root, mmdebstrap and buildah, which it runs with chroot isolation, so that
it works in a container as well. BAZEL names the command to run instead of
"bazel", options included.
EOF
}

cd "$(dirname "$0")/.."
cuda_base=
tag=$(sed -n 's/.*kVersion\[\] = "\(.*\)";/\1/p' common/version.h)
while (($# > 0)); do
  case $1 in
    --cuda | --tag)
      (($# > 1)) || { usage >&2; exit 2; }
      if [[ $1 == --tag ]]; then tag=$2; else cuda_base=$2; fi
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
(($# == 1)) || { usage >&2; exit 2; }
mkdir -p "$1"
out=$(realpath "$1")
for tool in mmdebstrap buildah; do
  command -v "$tool" >/dev/null ||
    { echo "$tool is not installed: apt-get install $tool" >&2; exit 1; }
done
scratch=$(mktemp -d "${TMPDIR:-/tmp}/bole_images.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

run_buildah() {
  buildah --root "$scratch/store" --runroot "$scratch/run" \
    --storage-driver vfs "$@"
}

# Packages are unpacked and no script of theirs runs, so that neither dpkg nor
# a shell's history of it is in the images.
make_base() {
  local root=$scratch/base
  mmdebstrap --quiet --variant=extract --mode=root \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
    --include=base-files,base-passwd,bash,coreutils,libc-bin \
    bookworm "$root" "${sources[@]}" >"$scratch/mmdebstrap" 2>&1 ||
    { cat "$scratch/mmdebstrap" >&2; return 1; }
  ln -s bash "$root/usr/bin/sh"
  cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
  cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"
  echo 'bole:x:65532:65532::/nonexistent:/usr/sbin/nologin' >>"$root/etc/passwd"
  echo 'bole:x:65532:' >>"$root/etc/group"
  echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
  # Licences stay.
  find "$root/usr/share/doc" -type f ! -name copyright -delete
  rm -rf "$root"/usr/share/{locale,man,info,lintian} \
    "$root"/var/{cache,lib/apt,log}/*
  find "$root" -perm /6000 -type f -exec chmod u-s,g-s {} +
  tar -C "$root" --sort=name --numeric-owner -cf "$scratch/base.tar" .
  local container
  container=$(run_buildah from scratch)
  run_buildah add -q "$container" "$scratch/base.tar" / >/dev/null
  run_buildah commit -q --format docker "$container" localhost/bole-base:1 \
    >/dev/null
  run_buildah rm "$container" >/dev/null
}

# make_image TARGET
make_image() {
  local name=bole-$1 base=localhost/bole-base:1 container mounted
  [[ $1 != worker-cuda ]] || base=$cuda_base
  run_buildah build --quiet --isolation chroot --format docker \
    --file deploy/docker/Dockerfile --target "$1" \
    --build-arg "BUILD_BASE=$base" --build-arg "BASE=$base" \
    --build-context "programs=$out/programs" \
    --label "org.opencontainers.image.version=$tag" \
    --label "org.opencontainers.image.licenses=Apache-2.0" \
    --tag "localhost/$name:$tag" . >/dev/null
  rm -rf "$out/$name.tar" "$out/$name.root"
  run_buildah push --quiet "localhost/$name:$tag" \
    "oci-archive:$out/$name.tar:$name:$tag"
  container=$(run_buildah from "localhost/$name:$tag")
  mounted=$(run_buildah mount "$container")
  cp -a "$mounted" "$out/$name.root"
  run_buildah umount "$container" >/dev/null
  run_buildah rm "$container" >/dev/null
}

# Apt's own, in both forms that it reads.
mapfile -t sources < <(
  find /etc/apt -maxdepth 2 -type f -size +0 \
    \( -path /etc/apt/sources.list -o -path '/etc/apt/sources.list.d/*.list' \
    -o -path '/etc/apt/sources.list.d/*.sources' \)
)
((${#sources[@]} > 0)) || { echo "apt has no sources" >&2; exit 1; }

deploy/bundle.sh "$out/programs/scheduler" \
  //scheduler_service:bole-scheduler //clients/cli:bole
deploy/bundle.sh "$out/programs/worker" //worker_service:bole-worker \
  //worker_service/calibration:bole-calibrate //clients/cli:bole
make_base
targets=(scheduler worker)
[[ -z $cuda_base ]] || targets+=(worker-cuda)
for target in "${targets[@]}"; do make_image "$target"; done

printf '%-24s %8s %8s %8s %8s\n' image base programs model all
for target in "${targets[@]}"; do
  root=$out/bole-$target.root
  size() { du -smc "$@" | tail -n 1 | cut -f 1; }
  programs=$(size "$root"/usr/lib/bole "$root"/usr/bin/bole*)
  model=$(size "$root/usr/share/bole")
  all=$(size "$root")
  printf '%-24s %4s MiB %4s MiB %4s MiB %4s MiB\n' "bole-$target:$tag" \
    "$((all - programs - model))" "$programs" "$model" "$all"
done
