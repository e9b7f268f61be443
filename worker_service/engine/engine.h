// Runs step plans: the worker without its wires.
#ifndef BOLE_WORKER_SERVICE_ENGINE_ENGINE_H_
#define BOLE_WORKER_SERVICE_ENGINE_ENGINE_H_

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
#include "worker_service/engine/draft_tails.h"
#include "worker_service/engine/drafter.h"
#include "worker_service/engine/engine_options.h"
#include "worker_service/engine/host_places.h"
#include "worker_service/engine/memory_plan.h"
#include "worker_service/engine/round_shape.h"
#include "worker_service/engine/row_batch_buffer.h"
#include "worker_service/engine/sampling_buffer.h"
#include "worker_service/engine/transfer_block.h"
#include "worker_service/model/device_arrays.h"
#include "worker_service/model/hybrid_model.h"
#include "worker_service/model/mtp_layer.h"
#include "worker_service/model/sequence_memory.h"

namespace bole {

// Seconds that forest rounds spent on the device, since the engine was created.
// Chunks that share a forward with a forest are part of its round. All time
// between rounds is idle, including copies and prefills without a forest.
struct EngineTimes {
  int64_t rounds = 0;
  double busy = 0;
  double idle = 0;
  // Parts of `busy`, only with EngineOptions::time_phases.
  double forward = 0;  // The target's layers and head.
  double accept = 0;   // Sampling, commit, counts.
  double draft = 0;    // The drafter's extend and growth.
};

// One model replica, or a rank of one. Create() allocates all memory except
// that of captured graphs, of which there are at most num_graphs(). Between
// steps only the bytes in slots and pages are kept, so any plan may follow any
// other.
//
// Every rank has an engine with the same options, on its part of the weights,
// and runs the same plans in the same order; all have the same results. An
// error of one rank ends the others' steps (OperatorSet::AbortRanks).
//
// Not thread-safe: one thread at a time, which need not be the one that called
// Create(). A step and the destructor bind their thread to the backend.
class Engine {
 public:
  // `config`, `weights` and `backend` must outlive the engine. The config
  // describes the rank's part of the model (LoadedModel::config).
  // Errors: INVALID_ARGUMENT for options that contradict each other or the
  // model, RESOURCE_EXHAUSTED naming what does not fit.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(
      const ModelConfig& config, const Weights& weights, Backend& backend,
      const EngineOptions& options);

  // The memory that Create() would allocate. INVALID_ARGUMENT as for Create().
  // COST: calls the operators on a ScratchMeter with every shape that a pass
  // can have; milliseconds.
  static absl::StatusOr<EngineMemory> Measure(const ModelConfig& config,
                                              const Weights& weights,
                                              Backend& backend,
                                              const EngineOptions& options);

  ~Engine();

  // Captures the rounds that any policy of a scheduler may choose, the
  // likeliest first, so that none has to be captured while requests are served.
  // Calls on_progress before each shape and after the last; it returns whether
  // to continue, the same on all ranks. Slots and pages are not changed. Does
  // nothing if the backend keeps no graphs. Errors: of Step() and on_progress.
  using OnProgress = std::function<absl::StatusOr<bool>(int done, int total)>;
  absl::Status WarmUp(const OnProgress& on_progress);

  // Runs the chunks and the forest in one forward, then the further rounds of a
  // lease: the next round is already queued on the device when a result is
  // reported. A lease ends early once all its sequences have ended.
  // INVALID_ARGUMENT, before anything is changed, for a plan that
  // ValidatePlan() refuses. Any other error comes from the backend and leaves
  // slots and pages undefined: from then on every step returns it.
  absl::Status Step(const StepPlan& plan, const OnRound& on_round);
  // For a plan without a lease.
  absl::StatusOr<StepResult> Step(const StepPlan& plan);
  // Step() for a plan that the caller has validated, so that a worker validates
  // each plan only once. REQUIRES: ValidatePlan(plan, limits(), has_drafter())
  // is OK; otherwise memory outside of slots and pages may be overwritten.
  absl::Status StepValidated(const StepPlan& plan, const OnRound& on_round);

  const StepLimits& limits() const { return limits_; }
  bool has_drafter() const { return drafter_.has_value(); }
  const SequenceMemory& memory() const { return memory_; }
  const HybridModel& model() const { return model_; }
  const EngineMemory& memory_use() const { return memory_use_; }
  const EngineTimes& times() const { return times_; }
  // The most graphs that are kept. graph_misses() counts the rounds since
  // WarmUp() that had none: such a round is queued operator by operator, and
  // then captured.
  int num_graphs() const { return graphs_->capacity(); }
  // The sizes that rounds are padded to, ascending: rows for forests of trees,
  // and requests for lone roots. Empty if rounds are not padded.
  std::vector<int> row_buckets() const;
  std::vector<int> request_buckets() const;
  int64_t graph_misses() const { return graphs_->num_misses() - warmed_up_; }

 private:
  using Results = std::vector<SequenceResult>;
  using Sequences = std::span<const SequencePlan* const>;
  // The mark of prefills; rounds use the lower ones (engine_round.cc).
  static constexpr int kPrefillMark = Device::kNumMarks - 1;

  // On the device of `arrays`.
  Engine(const ModelConfig& config, const Weights& weights,
         OperatorSet& operators, const EngineOptions& options,
         DeviceArrays arrays);
  void AllocateBlocks();
  absl::Status RunPlan(const StepPlan& plan, const OnRound& on_round);

  // Prefill chunks (engine_prefill.cc). The Bind...() functions take the arrays
  // of a pass from its transfer blocks.
  struct PrefillShape;
  struct PrefillPass;
  void AllocatePrefills();
  PrefillShape PrefillShapeOf(const StepPlan& plan) const;
  void BindPrefill(const PrefillShape& shape);
  void FillPrefill(const StepPlan& plan);
  absl::Status UploadPrefills(const StepPlan& plan);
  // Runs a plan without a forest.
  absl::StatusOr<Results> RunPrefills(const StepPlan& plan);
  absl::Status QueuePrefills();
  ForwardPart ChunksOfForward() const;
  // Queues the forward of chunks and a forest, up to the logits of all rows
  // from which tokens are drawn.
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
  void BindPromptRows(int rows);
  // Adds the log probabilities of the plan's chunks to `results`. REQUIRES:
  // hidden_ still holds the hidden vectors of their pass.
  absl::Status AddPromptLogprobs(const StepPlan& plan, Results& results);
  struct PromptRow;
  absl::Status ReadPromptRows(std::span<const PromptRow> rows,
                              Results& results);

  // Forest rounds (engine_round.cc).
  void BindRound(const RoundShape& shape, TransferBlock& up,
                 TransferBlock& down);
  void FillRound(const StepPlan& plan, Sequences sequences);
  void FillLease(const Lease& lease);
  absl::Status RunForest(const StepPlan& plan, const OnRound& on_round);
  // Queues round `index` of a plan; all its results will be in that image.
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

  // Queue passes of every shape that a plan can have, on a ScratchMeter
  // (engine_scratch.cc).
  absl::Status QueueAllPasses();
  absl::Status QueueForests(TransferBlock& up, TransferBlock& down);
  absl::Status QueueDrafts(TransferBlock& up, TransferBlock& down);
  absl::Status QueueChunks();
  absl::Status QueueJointForwards(TransferBlock& up, TransferBlock& down);

  // Shared by prefills and rounds.
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
  // The results of a round before which `committed` tokens were committed.
  Results ReadResults(Sequences sequences, std::span<const int32_t> committed,
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

  // The arrays of a round, which every round binds anew.
  TransferBlock up_, down_;
  RowArrays rows_;  // The forest's rows.
  std::unique_ptr<PrefillPass> prefill_;

  // The arrays with which the device chooses the next forest of a lease.
  TransferArray<int32_t> budget_;                // [1]
  TransferArray<int32_t> floor_, cap_;           // [B]
  TransferArray<int32_t> no_token_, no_parent_;  // [B] For lone roots.
  TransferArray<float> no_log_rho_;              // [B]
  int32_t *node_limit_, *depth_limit_;           // [B]

  EngineTimes times_;
  int64_t num_rounds_ = 0;
  int64_t warmed_up_ = 0;  // Misses of graphs_ that WarmUp() caused.
  absl::Status failure_;
  std::unique_ptr<GraphSet> graphs_;  // Refers to the members above.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_ENGINE_H_
