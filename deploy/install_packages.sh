#!/usr/bin/env bash
# Installs the Debian packages that Bole is built with, those that are missing.
# The list below is the only one in the project.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: deploy/install_packages.sh [--ci] [--list]

Installs what is missing with apt-get, through sudo unless run as root. With
everything in place it changes nothing and takes no time.

  --ci    also the tools of .ci/run: sanitizers, clang-format, clang-tidy
  --list  print the packages and what each is for, and exit
EOF
}

# package: what it is for
build_packages='
bazel-bootstrap: the build (Bazel 4.2)
bazel-rules-java: rules that Bazel wants to see, though nothing here is Java
bazel-rules-proto: the same, for protocol buffers
bazel-platforms: the same, for platforms
clang-14: compiler, C++20; -Wthread-safety, layering_check
lld-14: its linker
g++: the standard library, what nvcc compiles for the host, second compiler
libabsl-dev: Status, strings, hash maps
nlohmann-json3-dev: JSON of configurations, tokenizers and reports
libssl-dev: TLS, and digests of the files of checkpoints and of tokens
libpcre2-dev: the split pattern of tokenizers
libutf8proc-dev: Unicode normalisation of tokenizers
libhwy-dev: SIMD of the CPU backend
libcli11-dev: command lines
libgrpc++-dev: the services
protobuf-compiler-grpc: stubs of the services
libprotobuf-dev: messages
protobuf-compiler: code of the messages
prometheus-cpp-dev: metrics
libboost1.74-dev: serving HTTP (Beast, Asio: headers)
libcpp-httplib-dev: reading metrics over HTTP
libgtest-dev: unit tests
libgmock-dev: unit tests
libbenchmark-dev: benchmarks
curl: asks the services over HTTP and TLS, for their tests
openssl: certificates for the same
python3: the summary of a test run
python3-jinja2: what the chat templates are compared with
python3-grpcio: the Python SDK, and a client that knows the .proto files alone
python3-protobuf: the same, and the Python SDK
python3-build: the wheel of the Python SDK
python3-setuptools: the same
python3-wheel: the same
python3-pip: installs the wheel for its test
python3-venv: where it is installed to
openssl: certificates to try TLS with
curl: a client over HTTP, in tests
'
ci_packages='
libclang-rt-14-dev: sanitizers and libFuzzer for clang
clang-format-14: format check
clang-tidy-14: lint
llvm-14: names in the stack traces of clang sanitizers
shellcheck: lint of the scripts
git: what is tracked, for the checks of the tree
haproxy: reads deploy/haproxy.cfg, for the check of that
golang-go: renders the Helm chart for its tests
golang-github-masterminds-sprig-dev: functions of Helm, for the same
golang-github-xeipuuv-gojsonschema-dev: the schema of its values
golang-k8s-sigs-yaml-dev: YAML as Helm reads and writes it
mmdebstrap: the base of the images
buildah: builds the images
iproute2: a network of its own for what runs from them
prometheus: checks the rules, and watches the services in their test; promtool
python3-yaml: the same rules, at other times
python3-matplotlib: draws the dashboards
'

packages=$build_packages
list=false
for argument in "$@"; do
  case $argument in
    --ci) packages+=$ci_packages ;;
    --list) list=true ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

if $list; then
  sed '/^$/d' <<<"$packages"
  exit 0
fi

mapfile -t names < <(sed -n 's/:.*//p' <<<"$packages")

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "This system has no apt-get. Bole is developed on Debian 12; install" >&2
  echo "the counterparts of: ${names[*]}" >&2
  exit 1
fi

missing=()
for name in "${names[@]}"; do
  # shellcheck disable=SC2016
  state=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null) || true
  [[ $state == installed ]] || missing+=("$name")
done
((${#missing[@]} > 0)) || exit 0

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "Not root, and no sudo. As root, run:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
