#!/usr/bin/env bash
# What takes too long to run before each commit.
# shellcheck disable=SC2317  # Stages are called by name.
set -euo pipefail

usage() {
  cat <<'EOT'
usage: tests/nightly.sh [STAGE...]

Runs every stage, or those named, and goes on after a failure. Prints the stages
with their seconds at the end, and exits with 1 if one failed. All of it takes
some two hours on two cores.

  exact      the exactness suites with all seeds, prompts and settings
  sanitized  everything under AddressSanitizer, slow tests included
  fuzz       every fuzz target for two minutes
  kills      100 demo workers killed, 100 that lose a rank and 100 simulated ones
             failing, under streams
  peers      schedulers killed, stopped and restarted that share their workers
  traffic    the scheduler under floods, with unlike and with failing workers, and
             with prefix caches, in virtual time
  load       64 simulated workers and 5,000 streams for ten minutes
  tidy       clang-tidy over the whole tree, static analyzer included

BAZEL names the command to run instead of "bazel", options included.
EOT
}

all_stages=(exact sanitized fuzz kills peers traffic load tidy)

stage_exact() {
  local bazel
  read -ra bazel <<<"${BAZEL:-bazel}"
  "${bazel[@]}" test --test_env=BOLE_EXHAUSTIVE=1 --test_output=errors \
    //tests/worker_service/eval:exactness_test \
    //tests/worker_service/eval:acceptance_test \
    //tests/e2e:e2e_exactness_test \
    //tests/e2e:e2e_cache_test \
    //tests/e2e:e2e_displaced_test
}

stage_sanitized() {
  local bazel
  read -ra bazel <<<"${BAZEL:-bazel}"
  "${bazel[@]}" test --config=asan --build_tag_filters= \
    --test_tag_filters=-benchmark,-lint -- //... -//tests/bench/...
}

stage_fuzz() { tests/fuzz/run_fuzzers.sh 120; }

stage_kills() {
  local bazel workers status=0
  read -ra bazel <<<"${BAZEL:-bazel}"
  "${bazel[@]}" build //tests/e2e:kill_workers_test
  for workers in demo ranks simulated; do
    tests/e2e/kill_workers.py --kills 100 --workers "$workers" || status=1
  done
  return "$status"
}

stage_peers() {
  local bazel
  read -ra bazel <<<"${BAZEL:-bazel}"
  "${bazel[@]}" build //tests/e2e:peers_test //clients/cli:bole
  tests/e2e/peers.py --rounds 10 --stops 4 || return 1
  tests/e2e/rolling_restart.py --workers 2 --schedulers 2 --chart --rate 2 \
    --seconds 100
}

stage_traffic() {
  local bazel
  read -ra bazel <<<"${BAZEL:-bazel}"
  "${bazel[@]}" test --test_env=BOLE_EXHAUSTIVE=1 --test_output=all \
    //tests/scheduler_service/traffic/...
}

stage_load() {
  local bazel
  read -ra bazel <<<"${BAZEL:-bazel}"
  "${bazel[@]}" build //tests/bench/load:fleet_load
  bazel-bin/tests/bench/load/fleet_load
}

stage_tidy() { tests/lint/clang_tidy.sh; }

# shellcheck source=tests/stages.sh
source "$(dirname "$0")/stages.sh"
