#!/usr/bin/env bash
# The tree includes in the allowed directions, and the check that says so finds
# every kind of forbidden include.
set -euo pipefail
# shellcheck source=tests/lint/source_root.sh
source "$(dirname "$0")/source_root.sh"
check=$root/tests/lint/include_direction.sh

# verdict FILE INCLUDE: writes FILE with one include into an otherwise correct
# tree, and prints what the check says about that tree.
verdict() {
  local tree
  tree=$(mktemp -d "$scratch/tree.XXXXXX")
  mkdir -p "$tree/common" "$(dirname "$tree/$1")"
  echo '#include <vector>' >"$tree/common/fine.h"
  printf '// A file.\n#include %s\n' "$2" >"$tree/$1"
  "$check" "$tree" && echo allowed
}

refused() {
  local said
  said=$(verdict "$1" "$2") && fail "$1 may include $2"
  [[ $said == "$1:2:#include $2: "* ]] || fail "said of $1: $said"
}

allowed() {
  local said
  said=$(verdict "$1" "$2") || fail "refused: $said"
}

refused common/a.h '"kernels/backend.h"'
refused common/a.cc '<grpcpp/grpcpp.h>'
refused common/a.cc '"proto/worker.pb.h"'
refused common/a.h '"common/net/listen_address.h"'
refused common/net/a.cc '"proto/worker.pb.h"'
refused common/net/a.cc '"proto/grpc_status.h"'
refused common/tokenizer/a.cc '"worker_service/engine/engine.h"'
refused common/a.cc '"tests/testing/random_tree.h"'
refused common/a.cc '<gtest/gtest.h>'
refused kernels/reference/a.cc '<thread>'
refused kernels/reference/a.cc '<mutex>'
refused kernels/a.h '"common/mutex.h"'
refused kernels/a.h '"common/command_line.h"'
refused kernels/a.h '"worker_service/engine/engine.h"'
refused kernels/a.h '"common/net/listen_address.h"'
refused proto/a.h '"common/net/listen_address.h"'
refused clients/a.cc '"common/net/service_host.h"'
refused kernels/cuda/a.cu '"proto/worker.pb.h"'
refused kernels/reference/a.cc '<cuda_runtime.h>'
refused kernels/reference/a.cc '"kernels/cuda/device.cuh"'
refused scheduler_service/replicas/planner.cc '"kernels/backend.h"'
refused scheduler_service/replicas/planner.cc '"worker_service/engine/engine.h"'
refused scheduler_service/replicas/planner.cc '"proto/worker.pb.h"'
refused scheduler_service/door/front_door.h '<grpcpp/server_context.h>'
refused scheduler_service/door/front_door.cc '"proto/bole.pb.h"'
refused scheduler_service/door/front_door.cc '"scheduler_service/door/grpc/text_call.h"'
refused scheduler_service/door/messages/request_codec.cc '"grpcpp/grpcpp.h"'
refused scheduler_service/door/messages/request_codec.cc '"scheduler_service/door/grpc/text_call.h"'
refused scheduler_service/door/http/http_service.cc '"grpcpp/grpcpp.h"'
refused scheduler_service/door/http/http_service.cc '<boost/asio.hpp>'
refused scheduler_service/door/grpc/text_call.cc '<boost/asio.hpp>'
refused scheduler_service/jobs/mailbox.h '"scheduler_service/door/front_door.h"'
refused worker_service/engine/engine.cc '"kernels/cuda/cuda_backend.h"'
refused worker_service/model/weights.cc '<cuda_runtime_api.h>'
refused worker_service/engine/engine.cc '"scheduler_service/replicas/planner.h"'
refused worker_service/engine/engine.cc '"proto/worker.pb.h"'
refused worker_service/main.cc '"CLI/CLI.hpp"'
refused worker_service/model/layers.h '"worker_service/engine/engine.h"'
refused worker_service/engine/engine.cc '"worker_service/loop/compute_loop.h"'
refused worker_service/loop/compute_loop.cc '"worker_service/serving/worker_service.h"'
refused clients/chat.cc '"scheduler_service/replicas/planner.h"'
refused tests/kernels/a_test.cc '<cuda_runtime.h>'

allowed common/net/a.cc '<grpcpp/grpcpp.h>'
allowed common/net/http/a.cc '<boost/asio.hpp>'
allowed worker_service/a.cc '"common/net/service_host.h"'
allowed kernels/reference/a.cc '"common/thread_pool.h"'
allowed kernels/cuda/a.cu '<cuda_runtime.h>'
allowed kernels/cuda/a.cu '"kernels/cuda/device.cuh"'
allowed common/command_line.cc '"CLI/CLI.hpp"'
allowed worker_service/main.cc '"kernels/cuda/cuda_backend.h"'
allowed worker_service/eval_main.cc '"kernels/cuda/cuda_backend.h"'
allowed worker_service/codec.cc '"proto/worker.pb.h"'
allowed worker_service/serving/worker_service.cc '<grpcpp/grpcpp.h>'
allowed worker_service/serving/worker_server.cc '"worker_service/ranks/ranked_model.h"'
allowed scheduler_service/door/grpc/text_call.cc '"proto/bole.grpc.pb.h"'
allowed scheduler_service/door/messages/request_codec.cc '"proto/bole.pb.h"'
allowed scheduler_service/worker_client_grpc.cc '"proto/worker.grpc.pb.h"'
allowed tests/worker_service/a_test.cc '"worker_service/engine/engine.h"'

"$check" "$root" || fail 'the includes above go in a forbidden direction'
