#!/usr/bin/env bash
# Everything that is measured on a GPU, with the numbers in files.
#
# usage: run_all.sh BIN OUT COMMIT [--skip NAME[,NAME...]] [--only NAME[,...]]
#
# BIN is a folder of programs, as deploy/bundle.sh packs them; what is not in it
# is left out. OUT gets a log and a JSON file for each run, which
# tests/bench/cuda/summarize.py reads. COMMIT is told in them. About five minutes
# on one H200. Exits with 1 if a run failed; the others are run all the same.
set -euo pipefail

usage() {
  sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

(($# >= 3)) || usage
bin=$1 out=$2 commit=$3
shift 3
skip='' only=''
while (($# > 0)); do
  (($# >= 2)) || usage
  case $1 in
    --skip) skip=",$2," ;;
    --only) only=",$2," ;;
    *) usage ;;
  esac
  shift 2
done
mkdir -p "$out"
status=0

# run NAME PROGRAM ARGUMENT...
run() {
  local name=$1 program=$2
  shift 2
  [[ -z $only || $only == *",$name,"* ]] || return 0
  [[ $skip != *",$name,"* ]] || return 0
  if [[ ! -x $bin/$program ]]; then
    echo "== $name: there is no $bin/$program"
    return 0
  fi
  local begin=$SECONDS
  if "$bin/$program" "$@" >"$out/$name.log" 2>&1; then
    echo "== $name: $((SECONDS - begin)) s"
  else
    echo "== $name: FAILED after $((SECONDS - begin)) s"
    tail -n 5 "$out/$name.log"
    status=1
  fi
}

# Prints JSON to OUT/NAME.json.
bench() {
  local name=$1 program=$2
  shift 2
  run "$name" "$program" "$@" --json "$out/$name.json" --commit "$commit"
}

model() {
  local name=$1 model=$2
  shift 2
  bench "$name" bole-eval bench --device cuda --model "$model" "$@"
}

# Decoding end to end: plain, chains, node by node, two stages, blocks. With one
# tree for every batch, then with fewer nodes where more requests share a step.
decode_9B=('synthetic:9B,accept=6.9' --prompt-tokens 512 --output-tokens 160
  --draft-head listed)
model decode_27B synthetic:27B,accept=6.6 --prompt-tokens 256 \
  --output-tokens 96 --chain-depths 3 --draft-head listed
model decode_9B "${decode_9B[@]}" --chain-depths 3
model decode_9B_budget "${decode_9B[@]}" --chain-depths 3,5 \
  --tree-nodes 64,48,32,16,8
# Rounds that the device runs by itself.
model lease_9B "${decode_9B[@]}" --modes plain,blocks --batch 1,8 \
  --lease-rounds 4
model lease8_9B "${decode_9B[@]}" --modes plain,blocks --batch 1,8 \
  --lease-rounds 8
# A step by itself: for the calibrator, and the floors of plain decoding.
model steps_9B synthetic:9B --modes none --steps --batch 1,4,8,16
model steps_4B synthetic:4B --modes none --steps --batch 1,8,16 \
  --step-nodes 1,8,16,64,128 --step-kv 1024
model steps_27B synthetic:27B --modes none --steps --batch 1,8,16 \
  --step-nodes 1,8,16,64,128 --step-kv 1024
# Shares of a round, a commit by itself, and prefill.
model round_9B synthetic:9B,accept=6.9 --modes none --breakdown \
  --draft-head listed --prefill 8192 --batch 1,8,16
model round_9B_full_head synthetic:9B,accept=6.9 --modes none --breakdown \
  --batch 1 --draft-head full

bench gdn_verify gdn_verify_bench --errors --accepted 7
bench gdn_layer gdn_layer_bench
bench products products_bench
bench products_neighbours products_bench --neighbours --models 4B,9B
bench attention attention_bench
bench sampling sampling_bench
run operators operators_test --gtest_brief=1

exit "$status"
