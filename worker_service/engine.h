// Runs step plans: the worker without its wires.
#ifndef BOLE_WORKER_SERVICE_ENGINE_H_
#define BOLE_WORKER_SERVICE_ENGINE_H_

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/step.h"
#include "kernels/backend.h"
#include "worker_service/device_arrays.h"
#include "worker_service/drafter.h"
#include "worker_service/model/hybrid_model.h"
#include "worker_service/model/mtp_layer.h"
#include "worker_service/row_batch_buffer.h"
#include "worker_service/sampling_buffer.h"
#include "worker_service/sequence_memory.h"

namespace bole {

struct EngineOptions {
  int max_requests = 8;
  int max_nodes = 256;           // Of a forest.
  int max_nodes_per_tree = 128;  // At most 128.
  int max_prefill_tokens = 512;
  DraftShape max_draft;
  int num_slots = 8;
  int num_pages = 128;
  int page_size = 64;
  int max_context = 1024;
  // Ids at or beyond are padding of the head and are never drawn.
  int num_valid_tokens = 0;
  TreeSolver solver = TreeSolver::kBlocks;
};

// One model replica. All memory is allocated by Create. Between steps nothing
// is kept but the bytes in slots and pages, so any plan may follow any other.
//
// Not thread-safe: one thread steps.
class Engine {
 public:
  // `config`, `weights` and `backend` must outlive the engine.
  // Errors: INVALID_ARGUMENT for options that contradict each other or the
  // model, RESOURCE_EXHAUSTED naming what does not fit.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(
      const ModelConfig& config, const Weights& weights, Backend& backend,
      const EngineOptions& options);

  // Runs the chunks, then the forest. INVALID_ARGUMENT, before anything is
  // touched, for a plan that Validate() refuses; any other error comes from the
  // backend and leaves slots and pages of the plan undefined.
  absl::StatusOr<StepResult> Step(const StepPlan& plan);

  const StepLimits& limits() const { return limits_; }
  bool has_drafter() const { return drafter_.has_value(); }
  const SequenceMemory& memory() const { return memory_; }
  const HybridModel& model() const { return model_; }
  size_t memory_bytes() const { return arrays_.total_bytes(); }

 private:
  Engine(const ModelConfig& config, const Weights& weights, Backend& backend,
         const EngineOptions& options);

  absl::StatusOr<std::vector<SequenceResult>> RunPrefills(const StepPlan& plan);
  absl::StatusOr<std::vector<SequenceResult>> RunForest(const StepPlan& plan);
  absl::Status SamplePrefills(const StepPlan& plan,
                              std::span<const SequencePlan* const> sequences);
  SampleParams SampleOf(const RowBatchBuffer& rows) const;
  absl::Status CountTokens(const RowBatchBuffer& rows, const RowPath& path);
  // Extends the drafter over what was committed, and grows trees of `shape`.
  absl::Status Draft(const Drafter::Committed& committed,
                     const std::optional<DraftShape>& shape);
  // Waits for the device: what was emitted, and the proposals if there is a
  // shape.
  absl::StatusOr<std::vector<SequenceResult>> Collect(
      std::span<const SequencePlan* const> sequences,
      const std::optional<DraftShape>& shape);

  const ModelConfig& config_;
  Backend& backend_;
  const EngineOptions options_;
  StepLimits limits_;
  DeviceArrays arrays_;
  SequenceMemory memory_;
  Scratch scratch_;
  HybridModel model_;
  RowBatchBuffer forest_rows_;
  RowBatchBuffer prefill_rows_;
  RowBatchBuffer last_rows_;  // The last row of every prefill chunk.
  SamplingBuffer sampling_;
  int32_t* last_row_index_;  // [B]
  Activation* hidden_;       // [N, H] of the target.
  Activation* last_hidden_;  // [B, H]
  float* logits_;            // [nodes of a forest, V]
  std::optional<MtpLayer> mtp_layer_;
  std::optional<Drafter> drafter_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_H_
