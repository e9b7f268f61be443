#!/usr/bin/env bash
# Which folder may include what: the part that layering_check and visibility
# cannot see, system headers and generated ones above all.
#
# usage: include_direction.sh ROOT
#
# Prints one line per forbidden include, "FILE:LINE: #include ...: REASON", and
# exits with 1 if there is one.
set -euo pipefail

if (($# != 1)) || [[ ! -d $1 ]]; then
  sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
cd "$1"

status=0

sources=$(find . -type f \( -name '*.h' -o -name '*.cc' -o -name '*.cu' \
  -o -name '*.cuh' \) -not -path './bazel-*' -not -path './.git/*' \
  -printf '%P\n' | sort)
if [[ -z $sources ]]; then
  echo "no sources in $PWD" >&2
  exit 2
fi
# Every include of the tree, as PATH:LINE:TEXT.
includes=$(tr '\n' '\0' <<<"${sources}" |
  xargs -0 grep -sHnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]' || true)

# forbid FILES INCLUDED REASON [ALLOWED]: no file whose path matches FILES may
# include a header that matches INCLUDED, but those whose path matches ALLOWED.
# All three are extended regular expressions, anchored at the start.
forbid() {
  files="^($1)" included="^($2)" reason=$3 allowed=${4:+"^($4)"} awk '
    {
      path = substr($0, 1, index($0, ":") - 1)
      if (path !~ ENVIRON["files"]) next
      if (ENVIRON["allowed"] != "" && path ~ ENVIRON["allowed"]) next
      header = $0
      sub(/^[^<"]*[<"]/, "", header)
      if (header !~ ENVIRON["included"]) next
      print $0 ": " ENVIRON["reason"]
      found = 1
    }
    END { exit found }' <<<"$includes" || status=1
}

production='(common|kernels|proto|scheduler_service|worker_service|clients)/'
rpc='proto/|grpc|google/protobuf/|[^>"]*\.pb\.h'
cuda='cuda|cublas|nccl|cupti|kernels/cuda/'
threads='(thread|mutex|shared_mutex|condition_variable|future|semaphore|pthread\.h)[>"]|common/mutex\.h'
services='(scheduler_service|worker_service|clients)/'

forbid "$production" 'tests/|deploy/' \
  'production code does not include tests or deploy'
forbid "$production" 'gtest/|gmock/|benchmark/' \
  'production code does not include test libraries'

forbid 'proto/' "$cuda|kernels/|common/net/|$services" \
  'proto knows common types and nothing else of ours'

forbid 'common/' "$cuda|kernels/|proto/|$services" \
  'common includes nothing of ours but common, and no CUDA'
forbid 'common/' "$rpc|prometheus/|common/net/" \
  'common knows no network; how the services listen is in common/net' \
  'common/net/'
forbid 'common/net/' 'google/protobuf/|[^>"]*\.pb\.h' \
  'common/net listens; it knows no messages'
forbid '(common|scheduler_service|worker_service)/' 'boost/' \
  'who serves HTTP does so through common/net/http' 'common/net/http/'

forbid 'kernels/' "$rpc|common/net/|$services" \
  'kernels know nothing of requests: no RPC, no services'
forbid 'kernels/' "$threads" \
  'kernels start no threads and hold no locks; they are given a pool'
forbid 'kernels/' 'common/(command_line|log)\.h' \
  'kernels read no flags and write no log'

forbid 'scheduler_service/' "$cuda|kernels/|worker_service/" \
  'the scheduler decides; it neither computes nor includes the worker'
forbid 'worker_service/' 'scheduler_service/' \
  'the worker does not include the scheduler'
forbid 'worker_service/' "$cuda" \
  'the worker sees backends through kernels/backend.h; choose_backend picks one' \
  'worker_service/(loading/choose_backend|([a-z0-9_]*_)?main)\.cc$'
above='serving'
for room in calibration ranks loop engine loading model; do
  # `ranks` and `loop` stand side by side.
  forbid "worker_service/$room/" "worker_service/($above)/" \
    'rooms of the worker, from below: model, loading, engine, loop and ranks, calibration, serving'
  [[ $room == ranks ]] || above+="|$room"
done
forbid 'clients/' "$cuda|kernels/|common/net/|scheduler_service/|worker_service/" \
  'a client speaks through proto'

forbid '(scheduler|worker)_service/' '[^>"]*\.pb\.h' \
  'protobuf stays at the edge: codecs, RPC services, their calls and writers, clients, recordings' \
  'scheduler_service/door/(grpc|http|messages|openai)/|(scheduler|worker)_service/([a-z]+/)?([a-z0-9_]*codec|[a-z0-9_]*_service|(grpc_)?worker_client|peer_client|recorder)(_[a-z]+)?\.(h|cc)$'

doors='scheduler_service/door/(grpc|http|messages|openai)/'
forbid 'scheduler_service/door/' "$rpc|$doors" \
  'the door knows no protocol; what speaks one is in a folder below' \
  "$doors"
forbid 'scheduler_service/door/(messages|openai)/' \
  'grpc|boost/|scheduler_service/door/(grpc|http)/' \
  'messages are what gRPC and HTTP have in common'
forbid 'scheduler_service/door/http/' 'grpc|scheduler_service/door/grpc/' \
  'the two protocols do not know each other'
forbid 'scheduler_service/door/grpc/' 'boost/|scheduler_service/door/http/' \
  'the two protocols do not know each other'
forbid 'scheduler_service/(jobs|links|models|policy|replicas|watch)/' \
  'scheduler_service/door/' \
  'the door stands above the scheduler, and nothing below includes it'

forbid '' 'CLI/' \
  'command lines are read through common/command_line.h' \
  'common/command_line\.cc$'
forbid '' '(cuda|cublas|nccl)[A-Za-z0-9_]*\.h' \
  'CUDA headers only below kernels/cuda' '((tests/)?kernels|tests/bench)/cuda/'
forbid '' '[^>"]*\.cuh' \
  'a .cuh is included from kernels/cuda/*.cu and *.cuh alone' \
  'kernels/cuda/.*\.cuh?$'

exit "$status"
