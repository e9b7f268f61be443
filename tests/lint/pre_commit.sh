#!/usr/bin/env bash
# What a commit is checked for before it is made, on the files that it changes.
set -euo pipefail

usage() {
  cat <<'EOT'
usage: tests/lint/pre_commit.sh [--no-tidy]

Checks the staged files as they are in the working folder: their format, their
includes, their size, names of places on a machine, scripts by shellcheck, and
C++ by clang-tidy without the static analyzer. Takes some 8 seconds for each
.cc file, all else together two. Exits with 1 if there is a finding. To run it
before every commit:

  ln -s ../../tests/lint/pre_commit.sh .git/hooks/pre-commit

"git commit --no-verify" does without.

  --no-tidy  without clang-tidy
EOT
}

tidy=true
case ${1:-} in
  '') ;;
  --no-tidy) tidy=false ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

cd "$(git rev-parse --show-toplevel)"

# staged PATTERN...: staged files that are still there, by name.
staged() { git diff --cached --name-only --diff-filter=d -- "$@"; }

status=0
# check WHAT COMMAND...: runs one check and goes on.
check() {
  local what=$1
  shift
  "$@" && return
  echo "pre-commit: $what" >&2
  status=1
}

mapfile -t sources < <(staged '*.h' '*.cc' '*.cu' '*.cuh')
if ((${#sources[@]} > 0)); then
  check 'format with: clang-format-14 -i FILE' \
    clang-format-14 --dry-run -Werror "${sources[@]}"
  check 'forbidden includes' tests/lint/include_direction.sh .
  check 'files are too long' \
    tests/lint/size_check.py . tests/lint/size_exemptions.txt
fi
check 'names of places on a machine' tests/lint/text_check.sh .
mapfile -t scripts < <(staged '*.sh' .ci/run)
if ((${#scripts[@]} > 0)); then
  check 'scripts' shellcheck -x "${scripts[@]}"
fi
mapfile -t units < <(staged '*.cc')
if $tidy && ((${#units[@]} > 0)); then
  check 'clang-tidy' tests/lint/clang_tidy.sh --fast "${units[@]}"
fi
exit "$status"
