// The target's forward by itself, and what else can be timed by itself: for
// the table of the verification budget, and for the shares of a round.
#ifndef BOLE_WORKER_SERVICE_EVAL_BENCH_STEPS_H_
#define BOLE_WORKER_SERVICE_EVAL_BENCH_STEPS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/packed_forest.h"
#include "kernels/backend.h"
#include "worker_service/device_arrays.h"
#include "worker_service/loaded_model.h"
#include "worker_service/model/hybrid_model.h"
#include "worker_service/sequence_memory.h"

namespace bole {

// Mean seconds of what `queue` queues, over so many replays that they take
// about 50 ms, after a few that are not counted.
absl::StatusOr<double> SecondsOf(Backend& backend,
                                 const std::function<absl::Status()>& queue);

// Memory for requests with a committed prefix that was never computed: random
// states, keys and values of ordinary size.
class StepBench {
 public:
  struct Capacity {
    int batch;
    int nodes;  // Nodes of a forest.
    int kv_tokens;
  };
  struct Step {
    int batch;
    int nodes;  // Nodes of the forest; as many as the batch: plain decoding.
    int kv_tokens;  // Committed, of each request.
    TreeSolver solver = TreeSolver::kBlocks;
  };

  // `model` and `backend` must outlive it.
  static absl::StatusOr<std::unique_ptr<StepBench>> Create(
      const LoadedModel& model, Backend& backend, const Capacity& capacity);

  // The target's layers and its head. Trees have 8 levels of equal width.
  // INVALID_ARGUMENT: beyond the capacity, or more than 128 nodes a request.
  absl::StatusOr<double> ForwardSeconds(const Step& step);

  // The commit of `path` nodes of each request, all layers. Takes turns on the
  // slots of the capacity, so that a larger one keeps states out of the cache.
  absl::StatusOr<double> CommitSeconds(const Step& step, int path);

  // States that a commit reads and writes. Bytes of one request.
  int64_t state_bytes() const;
  // Keys and values of a token, the drafter's left out.
  int64_t kv_bytes() const;

 private:
  struct Rows;  // A forest on the device.

  StepBench(const LoadedModel& model, Backend& backend,
            const Capacity& capacity);
  int PagesPerRequest() const;
  absl::Status FillMemory();
  absl::Status FillActivations(Activation* out, int64_t count);
  absl::StatusOr<std::unique_ptr<Rows>> Upload(const Step& step,
                                               int first_slot = 0);
  absl::Status QueueForward(const Step& step, const Rows& rows);

  const LoadedModel& model_;
  Backend& backend_;
  const Capacity capacity_;
  DeviceArrays arrays_;
  SequenceMemory memory_;
  Scratch scratch_;
  HybridModel hybrid_;
  Activation* hidden_;  // [N, H]
  float* logits_;       // [N, V]
  const WeightMatrix* noise_ = nullptr;
};

// A tree of so many nodes as proposals have it: 8 levels, each child of the
// better half of the level before.
NodeList TreeOf(int nodes);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_EVAL_BENCH_STEPS_H_
