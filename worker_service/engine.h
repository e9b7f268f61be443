// Runs step plans: the worker without its wires.
#ifndef BOLE_WORKER_SERVICE_ENGINE_H_
#define BOLE_WORKER_SERVICE_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/step.h"
#include "kernels/backend.h"
#include "worker_service/device_arrays.h"
#include "worker_service/draft_tails.h"
#include "worker_service/drafter.h"
#include "worker_service/engine_options.h"
#include "worker_service/host_places.h"
#include "worker_service/memory_plan.h"
#include "worker_service/model/hybrid_model.h"
#include "worker_service/model/mtp_layer.h"
#include "worker_service/round_shape.h"
#include "worker_service/row_batch_buffer.h"
#include "worker_service/sampling_buffer.h"
#include "worker_service/sequence_memory.h"
#include "worker_service/transfer_block.h"

namespace bole {

// Where the time of forest rounds went on the device, in seconds, summed since
// the engine began. Chunks beside a forest are part of its round. What lies
// between rounds is idle, copies and prefills without a forest included.
struct EngineTimes {
  int64_t rounds = 0;
  double busy = 0;
  double idle = 0;
  // Parts of `busy`, only with EngineOptions::time_phases.
  double forward = 0;  // The target's layers and head.
  double accept = 0;   // Sampling, commit, counts.
  double draft = 0;    // The drafter's extend and growth.
};

// One model replica, or a rank of one. All memory is allocated by Create, but
// for captured graphs, of which there are at most num_graphs(). Between steps
// nothing is kept but the bytes in slots and pages, so any plan may follow any
// other.
//
// Every rank has an engine of the same options, on its part of the weights, and
// runs the same plans in the same order; all have the same results. An error of
// one rank ends the others' steps (OperatorSet::AbortRanks).
//
// Not thread-safe: one thread at a time, which may be another one than that of
// Create(). A step and the destructor bind their thread to the backend.
class Engine {
 public:
  // `config`, `weights` and `backend` must outlive the engine. The config is
  // that of what the weights are (LoadedModel::config).
  // Errors: INVALID_ARGUMENT for options that contradict each other or the
  // model, RESOURCE_EXHAUSTED naming what does not fit.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(
      const ModelConfig& config, const Weights& weights, Backend& backend,
      const EngineOptions& options);

  // What Create() would allocate. INVALID_ARGUMENT as Create().
  // COST: calls the operators of every shape that a pass can have on a
  // ScratchMeter; milliseconds.
  static absl::StatusOr<EngineMemory> Measure(const ModelConfig& config,
                                              const Weights& weights,
                                              Backend& backend,
                                              const EngineOptions& options);

  ~Engine();

  // Captures the rounds that any policy of a scheduler may choose, the
  // likeliest first, so that none is captured while it serves. Calls
  // on_progress before each shape and after the last; it returns whether to go
  // on, on all ranks alike. Slots and pages stay as they are; with a backend
  // that keeps no graphs nothing is done. Errors are those of Step() and
  // on_progress.
  using OnProgress = std::function<absl::StatusOr<bool>(int done, int total)>;
  absl::Status WarmUp(const OnProgress& on_progress);

  // Runs the chunks and the forest in one forward, then the further rounds of a
  // lease: the device has the next round queued when a result is handed out. A
  // lease ends early when all its sequences have. INVALID_ARGUMENT, before
  // anything is touched, for a plan that ValidatePlan() refuses; any other
  // error comes from the backend and leaves slots and pages undefined: from
  // then on every step returns it.
  absl::Status Step(const StepPlan& plan, const OnRound& on_round);
  // For a plan without a lease.
  absl::StatusOr<StepResult> Step(const StepPlan& plan);
  // Step() for a plan that the caller has validated, so that a worker looks at
  // each plan once. REQUIRES: ValidatePlan(plan, limits(), has_drafter()) is
  // OK; otherwise memory outside of slots and pages may be overwritten.
  absl::Status StepValidated(const StepPlan& plan, const OnRound& on_round);

  const StepLimits& limits() const { return limits_; }
  bool has_drafter() const { return drafter_.has_value(); }
  const SequenceMemory& memory() const { return memory_; }
  const HybridModel& model() const { return model_; }
  const EngineMemory& memory_use() const { return memory_use_; }
  const EngineTimes& times() const { return times_; }
  // Graphs that are kept at most, and rounds since WarmUp() that had none: such
  // a round is queued operator by operator, and then captured.
  int num_graphs() const { return graphs_->capacity(); }
  // What rounds are padded to, ascending, if they are: forests of trees to
  // `rows`, and lone roots to `requests`. Empty if a round costs what it has.
  std::vector<int> row_buckets() const;
  std::vector<int> request_buckets() const;
  int64_t graph_misses() const { return graphs_->num_misses() - warmed_up_; }

 private:
  using Results = std::vector<SequenceResult>;
  using Sequences = std::span<const SequencePlan* const>;
  // The mark of prefills; rounds have the marks before it (engine_round.cc).
  static constexpr int kPrefillMark = Device::kNumMarks - 1;

  // On the device of `arrays`.
  Engine(const ModelConfig& config, const Weights& weights,
         OperatorSet& operators, const EngineOptions& options,
         DeviceArrays arrays);
  void AllocateBlocks();
  absl::Status RunPlan(const StepPlan& plan, const OnRound& on_round);

  // Prefill chunks (engine_prefill.cc). Lay...: takes the arrays of a pass from
  // its blocks.
  struct PrefillShape;
  struct PrefillPass;
  void AllocatePrefills();
  PrefillShape PrefillShapeOf(const StepPlan& plan) const;
  void LayPrefill(const PrefillShape& shape);
  void FillPrefill(const StepPlan& plan);
  absl::Status UploadPrefills(const StepPlan& plan);
  // A plan without a forest.
  absl::StatusOr<Results> RunPrefills(const StepPlan& plan);
  absl::Status QueuePrefills();
  ForwardPart ChunksOfForward() const;
  // Chunks and a forest, up to the logits of all rows to draw from.
  absl::Status QueueJointForward(const RoundShape& shape);
  // Runs the head for the rows of hidden_ that head_row names.
  absl::Status QueueHead();
  absl::Status QueuePrefillAccept();
  // Draws the tokens that follow last_rows.
  absl::Status QueueDraws();
  absl::Status QueuePrefillDraft();
  absl::Status QueuePrefillDownload();
  absl::StatusOr<Results> ReadPrefills(const StepPlan& plan);

  // Log probabilities of prompts (engine_prompt.cc).
  void LayPromptRows(int rows);
  // Fills in those of the chunks whose pass was the last to leave hidden_.
  absl::Status AddPromptLogprobs(const StepPlan& plan, Results& results);
  struct PromptRow;
  absl::Status ReadPromptRows(std::span<const PromptRow> rows,
                              Results& results);

  // Forest rounds (engine_round.cc).
  void LayRound(const RoundShape& shape, TransferBlock& up,
                TransferBlock& down);
  void FillRound(const StepPlan& plan, Sequences sequences);
  void FillLease(const Lease& lease);
  absl::Status RunForest(const StepPlan& plan, const OnRound& on_round);
  // Round `index` of a plan; all its results will be in that image.
  absl::Status QueueRound(const RoundShape& shape, Sequences sequences,
                          int index);
  absl::Status Replay(const RoundShape& shape, int index, int64_t round);
  absl::Status QueueNextForest(const RoundShape& shape);
  ForwardPart ForestOfForward(const RoundShape& shape) const;
  absl::Status QueueForward(const RoundShape& shape);
  absl::Status QueueAccept(const RoundShape& shape);
  absl::Status QueueDraft(const RoundShape& shape);
  absl::Status QueueDraftTails(const StepPlan& plan);
  Drafter::Committed CommittedOf(const RoundShape& shape) const;
  absl::Status AddTimes(int64_t round);

  // Rounds without requests (engine_warm_up.cc).
  void FillNothing(const RoundShape& shape);
  absl::Status WarmUp(const RoundShape& shape);

  // Passes of every shape that a plan can have, on a ScratchMeter
  // (engine_scratch.cc).
  absl::Status QueueAllPasses();
  absl::Status QueueForests(TransferBlock& up, TransferBlock& down);
  absl::Status QueueDrafts(TransferBlock& up, TransferBlock& down);
  absl::Status QueueChunks();
  absl::Status QueueJointForwards(TransferBlock& up, TransferBlock& down);

  // Both.
  static HostSequence MemoryOf(const SequencePlan& sequence) {
    return {.slot = sequence.slot.value(),
            .committed = sequence.committed,
            .pages = sequence.pages};
  }
  SampleParams SampleOf(const RowArrays& rows,
                        const SamplingBuffer& sampling) const;
  absl::Status CountTokens(const RowArrays& rows, const RowPath& path,
                           const SamplingBuffer& sampling);
  absl::Status Upload(Sequences sequences);
  absl::Status QueueDownload(Sequences sequences, int image);
  // What an image holds: `committed` of each result is the path's length.
  Results ReadResults(Sequences sequences,
                      const std::optional<DraftShape>& shape, int image) const;
  static void AddProposals(const Drafter& drafter, const TransferBlock& down,
                           int image, Sequences sequences, Results& results);

  const ModelConfig& config_;
  Device& device_;
  OperatorSet& operators_;
  const EngineOptions options_;
  StepLimits limits_;
  EngineMemory memory_use_;
  DeviceArrays arrays_;
  SequenceMemory memory_;
  HostPlaces host_;
  Scratch scratch_;
  HybridModel model_;
  SamplingBuffer sampling_;
  std::optional<MtpLayer> mtp_layer_;
  std::optional<Drafter> drafter_;
  std::optional<DraftTails> draft_tails_;
  Activation* hidden_;       // [N, H] of the target, the forest's rows first.
  Activation* head_hidden_;  // [rows for the head, H]
  float* logits_;  // [rows for the head, V or the rank's], the forest's first.

  // A round's arrays, laid out anew by every round.
  TransferBlock up_, down_;
  RowArrays rows_;  // Of the forest.
  std::unique_ptr<PrefillPass> prefill_;

  // What a lease needs:
  TransferArray<int32_t> budget_;                // [1]
  TransferArray<int32_t> floor_, cap_;           // [B]
  TransferArray<int32_t> no_token_, no_parent_;  // [B] For lone roots.
  TransferArray<float> no_log_rho_;              // [B]
  int32_t *node_limit_, *depth_limit_;           // [B]

  EngineTimes times_;
  int64_t num_rounds_ = 0;
  int64_t warmed_up_ = 0;  // Misses of graphs_ that WarmUp() wanted.
  absl::Status failure_;
  std::unique_ptr<GraphSet> graphs_;  // Uses the rest.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_H_
