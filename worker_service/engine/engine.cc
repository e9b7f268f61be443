#include "worker_service/engine/engine.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/status_macros.h"
#include "kernels/scratch_meter.h"
#include "worker_service/engine/engine_prefill.h"
#include "worker_service/engine/memory_copies.h"
#include "worker_service/engine/validate_plan.h"

namespace bole {

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(
    const ModelConfig& config, const Weights& weights, Backend& backend,
    const EngineOptions& options) {
  BOLE_ASSIGN_OR_RETURN(const EngineMemory measured,
                        Measure(config, weights, backend, options));
  BOLE_RETURN_IF_ERROR(backend.ReserveScratch(measured.scratch));
  std::unique_ptr<Engine> engine(
      new Engine(config, weights, backend, options, DeviceArrays(backend)));
  BOLE_RETURN_IF_ERROR(engine->arrays_.status());
  engine->memory_use_.scratch = measured.scratch;
  return engine;
}

absl::StatusOr<EngineMemory> Engine::Measure(const ModelConfig& config,
                                             const Weights& weights,
                                             Backend& backend,
                                             const EngineOptions& options) {
  BOLE_RETURN_IF_ERROR(Validate(options, config));
  const std::unique_ptr<ScratchMeter> meter = backend.MakeScratchMeter();
  OperatorSet& operators =
      meter == nullptr ? static_cast<OperatorSet&>(backend) : *meter;
  Engine engine(config, weights, operators, options,
                DeviceArrays::Measuring(backend));
  if (meter != nullptr) {
    BOLE_RETURN_IF_ERROR(engine.QueueAllPasses());
    engine.memory_use_.scratch = meter->bytes();
  }
  return engine.memory_use_;
}

Engine::Engine(const ModelConfig& config, const Weights& weights,
               OperatorSet& operators, const EngineOptions& options,
               DeviceArrays arrays)
    : config_(config),
      device_(arrays.device()),
      operators_(operators),
      options_(options),
      limits_(LimitsOf(options, config)),
      arrays_(std::move(arrays)),
      memory_(config,
              {.num_slots = options.TotalSlots(),
               .num_pages = options.num_pages,
               .page_size = options.page_size,
               .keeps_hidden = weights.drafter.has_value()},
              arrays_),
      host_(memory_,
            {.num_slots = options.num_host_slots,
             .num_pages = options.num_host_pages},
            operators, arrays_),
      scratch_(config,
               std::max(options.MaxForwardRows(), options.MaxDraftRows()),
               operators.rank().count, arrays_),
      model_({config, weights, operators, memory_, scratch_},
             {.max_forest_rows = options.max_nodes,
              .max_prefill_rows = options.max_prefill_tokens,
              .keeps_node_states = options.solver == TreeSolver::kSerial},
             arrays_),
      sampling_(options.max_nodes, arrays_),
      graphs_(options.graphs ? device_.MakeGraphs(GraphCapacity(
                                   options, weights.drafter.has_value()))
                             : std::make_unique<QueuedGraphs>()) {
  memory_use_.states = memory_.slot_bytes() * options.TotalSlots();
  memory_use_.pages = memory_.page_bytes() * options.num_pages;
  memory_use_.factors = model_.factor_bytes();
  const int64_t hidden = config.hidden_size;
  hidden_ =
      arrays_.Activations(options.MaxForwardRows() * hidden, "hidden vectors");
  head_hidden_ = arrays_.Activations(options.MaxHeadRows() * hidden,
                                     "hidden vectors for the head");
  const int64_t logits =
      int64_t{options.MaxHeadRows()} * model_.head().most_rows();
  logits_ = arrays_.SharedArray<float>(logits, "logits");
  memory_use_.logits = static_cast<size_t>(logits) * sizeof(float);
  if (weights.drafter) {
    mtp_layer_.emplace(
        ModelParts{config, weights, operators, memory_, scratch_},
        options.MaxDraftRows(), arrays_);
    drafter_.emplace(
        config, operators, *mtp_layer_,
        Drafter::Options{.max_requests = options.max_requests,
                         .max_rows = options.MaxDraftRows(),
                         .max_shape = options.max_draft,
                         .num_valid_tokens = options.num_valid_tokens},
        arrays_);
    draft_tails_.emplace(
        memory_, operators, *mtp_layer_,
        DraftTails::Capacity{.hidden_size = config.hidden_size,
                             .max_requests = options.max_requests,
                             .max_rows = options.max_prefill_tokens,
                             .max_pages = options.MaxPagesPerRequest()},
        arrays_);
  }
  node_limit_ = arrays_.Array<int32_t>(options.max_requests, "lease");
  depth_limit_ = arrays_.Array<int32_t>(options.max_requests, "lease");
  AllocateBlocks();
  AllocatePrefills();
  memory_use_.buffers = arrays_.total_bytes() - memory_use_.total();
}

// Allocates room for the largest round.
void Engine::AllocateBlocks() {
  const std::optional<DraftShape> draft =
      drafter_ ? std::optional(options_.max_draft) : std::nullopt;
  TransferBlock up, down;
  BindRound({.is_decode = false,
             .requests = options_.max_requests,
             .rows = options_.max_nodes,
             .mask_words = options_.MaskWords(),
             .path_rows = options_.max_nodes,
             .draft = draft,
             .max_nodes_per_tree = options_.max_nodes_per_tree},
            up, down);
  up_ = TransferBlock(up.used(), /*num_images=*/kMaxLeaseRounds, "plans",
                      arrays_);
  down_ = TransferBlock(down.used(), /*num_images=*/kMaxLeaseRounds, "results",
                        arrays_);
}

// Members must be freed with the thread bound to the device that owns them.
Engine::~Engine() { device_.BindThread().IgnoreError(); }

absl::Status Engine::Step(const StepPlan& plan, const OnRound& on_round) {
  BOLE_RETURN_IF_ERROR(failure_);
  BOLE_RETURN_IF_ERROR(ValidatePlan(plan, limits_, has_drafter()));
  return StepValidated(plan, on_round);
}

absl::Status Engine::StepValidated(const StepPlan& plan,
                                   const OnRound& on_round) {
  BOLE_DCHECK(ValidatePlan(plan, limits_, has_drafter()).ok());
  BOLE_RETURN_IF_ERROR(failure_);
  failure_ = RunPlan(plan, on_round);
  if (!failure_.ok()) operators_.AbortRanks(failure_);
  return failure_;
}

absl::StatusOr<StepResult> Engine::Step(const StepPlan& plan) {
  if (plan.lease) {
    return absl::InvalidArgumentError(
        "a lease has a result for each round, and this is a single step");
  }
  StepResult only;
  BOLE_RETURN_IF_ERROR(
      Step(plan, [&only](StepResult result) { only = std::move(result); }));
  return only;
}

absl::Status Engine::RunPlan(const StepPlan& plan, const OnRound& on_round) {
  BOLE_RETURN_IF_ERROR(device_.BindThread());
  BOLE_RETURN_IF_ERROR(host_.QueueCopies(plan));
  BOLE_RETURN_IF_ERROR(QueueCopies(plan.copies, memory_, device_, operators_));
  BOLE_RETURN_IF_ERROR(QueueDraftTails(plan));
  if (!plan.sequences.empty()) return RunForest(plan, on_round);
  StepResult result;
  if (!plan.prefills.empty()) {
    BOLE_ASSIGN_OR_RETURN(result.prefills, RunPrefills(plan));
  }
  on_round(std::move(result));
  return absl::OkStatus();
}

std::vector<int> Engine::row_buckets() const {
  return num_graphs() > 0 ? RowBuckets(options_.max_nodes) : std::vector<int>();
}

std::vector<int> Engine::request_buckets() const {
  return num_graphs() > 0 ? RequestBuckets(options_.max_requests)
                          : std::vector<int>();
}

SampleParams Engine::SampleOf(const RowArrays& rows,
                              const SamplingBuffer& sampling) const {
  SampleParams params = sampling.Params();
  params.batch = rows.batch();
  params.vocabulary = config_.vocab_size;
  params.num_valid_tokens = options_.num_valid_tokens;
  params.token = rows.token();
  params.logits = logits_;
  params.rank_columns = model_.head().rows;
  params.counts = memory_.counts;
  return params;
}

absl::Status Engine::CountTokens(const RowArrays& rows, const RowPath& path,
                                 const SamplingBuffer& sampling) {
  return operators_.CountTokens({.batch = rows.batch(),
                                 .path = path,
                                 .vocabulary = config_.vocab_size,
                                 .token = rows.token(),
                                 .control = sampling.control(),
                                 .counts = memory_.counts});
}

absl::Status Engine::Upload(Sequences sequences) {
  return up_.Upload(sampling_.BytesUp(sequences));
}

absl::Status Engine::QueueDownload(Sequences sequences, int image) {
  return down_.QueueDownload(sampling_.BytesDown(sequences), image);
}

Engine::Results Engine::ReadResults(Sequences sequences,
                                    std::span<const int32_t> committed,
                                    const std::optional<DraftShape>& shape,
                                    int image) const {
  Results results = sampling_.Results(down_, image, sequences, committed);
  if (shape) AddProposals(*drafter_, down_, image, sequences, results);
  return results;
}

void Engine::AddProposals(const Drafter& drafter, const TransferBlock& down,
                          int image, Sequences sequences, Results& results) {
  std::vector<int32_t> roots(NumDrafted(sequences));
  for (size_t b = 0; b < roots.size(); ++b) {
    const std::vector<EmittedToken>& emitted = results[b].emitted;
    roots[b] = emitted.empty() ? 0 : emitted.back().token;
  }
  std::vector<ProposalTree> trees = drafter.Results(down, image, roots);
  for (size_t b = 0; b < trees.size(); ++b) {
    const bool goes_on =
        !results[b].emitted.empty() && !results[b].bad_logits_position;
    if (goes_on) results[b].proposal = std::move(trees[b]);
  }
}

}  // namespace bole
