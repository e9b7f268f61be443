#!/usr/bin/env bash
# Everything that is measured on a GPU, with the numbers in files.
#
# usage: run_all.sh BIN OUT COMMIT [--skip NAME[,NAME...]] [--only NAME[,...]]
#
# Run from the root of the source tree. BIN is a folder of programs, as
# deploy/bundle.sh packs them; what is not in it is left out. OUT gets a log and
# a JSON file for each run, which tests/bench/cuda/summarize.py reads. COMMIT is
# told in them. Ten minutes on one H200, half of them compute-sanitizer's. Exits
# with 1 if a run failed; the others are run all the same.
set -euo pipefail

usage() {
  sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
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
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
status=0

# Whether a run of that name is asked for and PROGRAM is there.
wanted() {
  local name=$1 program=$2
  [[ -z $only || $only == *",$name,"* ]] || return 1
  [[ $skip != *",$name,"* ]] || return 1
  [[ -x $program ]] && return 0
  echo "== $name: there is no $program"
  return 1
}

# run NAME COMMAND ARGUMENT...
run() {
  local name=$1 begin=$SECONDS
  shift
  if "$@" >"$out/$name.log" 2>&1; then
    echo "== $name: $((SECONDS - begin)) s"
  else
    echo "== $name: FAILED after $((SECONDS - begin)) s"
    tail -n 5 "$out/$name.log"
    status=1
  fi
}

# in_shards COUNT PREFIX PROGRAM: the tests among so many processes, each with a
# report in PREFIX.N.gtest.
# shellcheck disable=SC2317  # Called by name.
in_shards() {
  local count=$1 prefix=$2 program=$3 shard failed=0 processes=()
  for ((shard = 0; shard < count; ++shard)); do
    GTEST_TOTAL_SHARDS=$count GTEST_SHARD_INDEX=$shard "$program" \
      --gtest_brief=1 --gtest_output="json:$prefix.$shard.gtest" &
    processes+=($!)
  done
  for process in "${processes[@]}"; do wait "$process" || failed=1; done
  return "$failed"
}

# gtest NAME PROGRAM COUNT: tests by COUNT processes, and what they recorded, in
# OUT/NAME.json.
gtest() {
  local name=$1 program=$bin/$2 count=$3
  wanted "$name" "$program" || return 0
  run "$name" in_shards "$count" "$out/$name" "$program"
  python3 tests/bench/cuda/gtest_report.py "$out/$name.json" "$gpu" "$commit" \
    "$out/$name".*.gtest || status=1
  rm -f "$out/$name".*.gtest
}

# Prints JSON to OUT/NAME.json.
bench() {
  local name=$1 program=$2
  shift 2
  wanted "$name" "$bin/$program" || return 0
  run "$name" "$bin/$program" "$@" --json "$out/$name.json" --commit "$commit"
}

model() {
  local name=$1 model=$2
  shift 2
  bench "$name" bole-eval bench --device cuda --model "$model" "$@"
}

# Decoding end to end: plain, chains, node by node, two stages, blocks. With one
# tree for every batch, then with fewer nodes where more requests share a step.
# All of the text is alike, so that one request accepts what others do.
decode_9B=('synthetic:9B,accept=6.9,spread=0' --prompt-tokens 512 --output-tokens 160
  --draft-head listed)
model decode_27B synthetic:27B,accept=6.6,spread=0 --prompt-tokens 256 \
  --output-tokens 96 --chain-depths 3 --draft-head listed
model decode_9B "${decode_9B[@]}" --chain-depths 3
model decode_9B_budget "${decode_9B[@]}" --chain-depths 3,5 \
  --tree-nodes 64,48,32,16,8
# Rounds that the device runs by itself.
model lease_9B "${decode_9B[@]}" --modes plain,blocks --batch 1,8 \
  --lease-rounds 4
model lease8_9B "${decode_9B[@]}" --modes plain,blocks --batch 1,8 \
  --lease-rounds 8
# How acceptance varies over rounds and requests.
model text_9B synthetic:9B,accept=6.9 --modes blocks --batch 32 \
  --tree-nodes 64 --prompt-tokens 64 --output-tokens 256 --temperature 0.2
# Shares of a round, of plain decoding and of trees, and prefill.
model round_9B synthetic:9B,accept=6.9 --modes none --breakdown \
  --draft-head listed --prefill 8192 --batch 1,8,16
model round_9B_full_head synthetic:9B,accept=6.9 --modes none --breakdown \
  --batch 1 --draft-head full
# Behind short and long texts; depth 9 has room for trees of 128 nodes.
for kv in 1024 8192 32768; do
  model "round_9B_$kv" synthetic:9B,accept=6.9 --modes none --breakdown \
    --draft-head listed --batch 1,1 --tree-nodes 64,128 --depth 9 \
    --prompt-tokens "$kv"
done
# The last one is a mixture of experts.
for size in 4B 27B 35B-A3B; do
  model "round_${size//-/_}" "synthetic:$size,accept=6.9" --modes none \
    --breakdown --draft-head listed --batch 1,8,16 --tree-nodes 64,8,8
done

bench gdn_verify gdn_verify_bench --errors --accepted 7
bench gdn_layer gdn_layer_bench
bench gdn_verify_layer gdn_layer_bench --shapes 4B,27B --batch 1,2,4 \
  --nodes 8,16,32,64 --prefill 0
bench moe moe_bench
bench products products_bench
bench products_neighbours products_bench --neighbours --models 4B,9B
bench attention attention_bench
bench sampling sampling_bench

gtest operators operators_test 12
gtest ranks ranks_test 1
gtest models models_cuda_test 1
if wanted serving "$bin/bole-scheduler"; then
  run serving python3 tests/e2e/serve_bundle.py "$bin/.." \
    --json "$out/serving.json" --gpu "$gpu" --commit "$commit"
fi
if wanted sanitizer "$bin/operators_test"; then
  run sanitizer python3 tests/kernels/cuda/sanitize.py "$bin/operators_test" \
    --json "$out/sanitizer.json" --gpu "$gpu" --commit "$commit" \
    --earlier tests/bench/results/h200/sanitizer.json \
    --logs "$out/sanitizer_logs" --within 600
fi

exit "$status"
