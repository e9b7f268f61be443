#include "worker_service/eval/forward.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker_service/engine/row_batch_buffer.h"
#include "worker_service/model/device_arrays.h"
#include "worker_service/model/head.h"
#include "worker_service/model/hybrid_model.h"
#include "worker_service/model/mtp_layer.h"
#include "worker_service/model/sequence_memory.h"

namespace bole {
namespace {

constexpr int kPageSize = 64;
constexpr int kDraftSteps = 4;
constexpr int kMaxTreeNodes = 128;

int32_t Argmax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) -
                              logits.begin());
}

// Runs a single sequence, which has slot 0 and all pages.
class ForwardRun {
 public:
  ForwardRun(const LoadedModel& model, Backend& backend,
             const ForwardOptions& options)
      : model_(model),
        config_(model.config),
        backend_(backend),
        options_(options),
        num_tokens_(static_cast<int>(options.ids.size())),
        chunk_(options.chunk > 0 ? std::min(options.chunk, num_tokens_)
                                 : num_tokens_),
        max_rows_(std::max(chunk_, kMaxTreeNodes)),
        num_pages_((num_tokens_ + max_rows_) / kPageSize + 1),
        arrays_(backend),
        memory_(
            config_,
            {.num_slots = 1, .num_pages = num_pages_, .page_size = kPageSize},
            arrays_),
        scratch_(config_, max_rows_, backend.rank().count, arrays_),
        hybrid_({config_, *model.weights, backend, memory_, scratch_},
                {.max_forest_rows = kMaxTreeNodes, .max_prefill_rows = chunk_},
                arrays_),
        chains_(Capacity(chunk_, 0), "chain rows", arrays_),
        tree_(Capacity(kMaxTreeNodes, kMaxTreeNodes / 32), "tree rows",
              arrays_) {
    hidden_ = arrays_.Activations(
        static_cast<int64_t>(max_rows_) * config_.hidden_size, "hidden");
    drafted_ = arrays_.Activations(
        static_cast<int64_t>(max_rows_) * config_.hidden_size, "drafted");
    logits_ = arrays_.Array<float>(
        static_cast<int64_t>(max_rows_) * config_.vocab_size, "logits");
    if (model.weights->drafter) {
      drafter_ = std::make_unique<MtpLayer>(
          ModelParts{config_, *model.weights, backend, memory_, scratch_},
          max_rows_, arrays_);
    }
    for (int i = 0; i < num_pages_; ++i) pages_.emplace_back(i);
  }

  absl::StatusOr<ForwardResult> Run() {
    BOLE_RETURN_IF_ERROR(arrays_.status());
    result_.ints["ids"] = options_.ids;
    for (int begin = 0; begin < num_tokens_; begin += chunk_) {
      BOLE_RETURN_IF_ERROR(
          Prefill(begin, std::min(begin + chunk_, num_tokens_)));
    }
    if (drafter_) BOLE_RETURN_IF_ERROR(Draft());
    BOLE_RETURN_IF_ERROR(SaveStates());
    if (options_.tree) BOLE_RETURN_IF_ERROR(VerifyTree());
    return std::move(result_);
  }

 private:
  RowBatchCapacity Capacity(int max_rows, int mask_words) const {
    return {.max_requests = 1,
            .max_rows = max_rows,
            .mask_words = mask_words,
            .max_pages = num_pages_};
  }

  absl::Status Upload(RowBatchBuffer& buffer, const HostRows& rows,
                      int committed) {
    const HostSequence sequence{
        .slot = 0, .committed = committed, .pages = pages_};
    return buffer.Upload(rows, {&sequence, 1});
  }

  // Appends `rows` rows of `width` values to a result.
  absl::Status Append(const char* name, const float* device, int rows,
                      int width) {
    ForwardResult::Floats& out = result_.floats[name];
    const size_t old_size = out.values.size();
    const size_t count = static_cast<size_t>(rows) * width;
    out.values.resize(old_size + count);
    out.shape = {static_cast<int64_t>(out.values.size()) / width, width};
    return backend_.Download(out.values.data() + old_size, device,
                             count * sizeof(float));
  }

  // The last `width` values of a result.
  std::span<const float> LastRow(const char* name, int width) {
    return std::span(result_.floats[name].values).last(width);
  }

  // Computes logits_ for all tokens of the vocabulary.
  absl::Status Score(RowCount rows, const Activation* hidden) {
    BOLE_RETURN_IF_ERROR(hybrid_.Logits(rows, hidden, logits_));
    return GatherLogits(hybrid_.head(), rows, logits_, backend_);
  }

  absl::Status Prefill(int begin, int end) {
    const int rows = end - begin;
    HostRows chain;
    chain.AddChain(std::span(options_.ids).subspan(begin, rows));
    BOLE_RETURN_IF_ERROR(Upload(chains_, chain, begin));
    const RowBatch& batch = chains_.batch();
    BOLE_RETURN_IF_ERROR(hybrid_.Forward({.batch = batch,
                                          .token = chains_.token(),
                                          .mode = ForwardMode::kPrefill,
                                          .all_rows = chains_.all_rows()},
                                         hidden_));
    BOLE_RETURN_IF_ERROR(Score(batch.rows, hidden_));
    BOLE_RETURN_IF_ERROR(Append("logits", logits_, rows, config_.vocab_size));

    ForwardResult::Floats& hidden = result_.floats["hidden"];
    const size_t old_size = hidden.values.size();
    hidden.values.resize(old_size +
                         static_cast<size_t>(rows) * config_.hidden_size);
    hidden.shape = {end, config_.hidden_size};
    BOLE_RETURN_IF_ERROR(backend_.DownloadActivations(
        std::span(hidden.values).subspan(old_size), hidden_));
    return drafter_ ? ExtendDrafter(begin, end) : absl::OkStatus();
  }

  // Fills drafter slots begin .. end - 1, except the last slot of the prompt:
  // that one needs the token that is drawn after the ids, and is filled by the
  // first drafting step.
  absl::Status ExtendDrafter(int begin, int end) {
    const int last = std::min(end, num_tokens_ - 1);
    if (last <= begin) return absl::OkStatus();
    return RunDrafter(std::span(options_.ids).subspan(begin + 1, last - begin),
                      begin, hidden_, "mtp_logits");
  }

  // Runs the drafter for `tokens` at drafter slots from `slot` on, where row i
  // uses row i of `hidden`.
  absl::Status RunDrafter(std::span<const int32_t> tokens, int slot,
                          const Activation* hidden, const char* name) {
    HostRows chain;
    chain.AddChain(tokens);
    BOLE_RETURN_IF_ERROR(Upload(chains_, chain, slot));
    const RowBatch& batch = chains_.batch();
    BOLE_RETURN_IF_ERROR(
        drafter_->Forward({.batch = batch,
                           .token = chains_.token(),
                           .hidden = hidden,
                           .hidden_row = chains_.all_rows().row},
                          drafted_));
    BOLE_RETURN_IF_ERROR(Score(batch.rows, drafted_));
    return Append(name, logits_, static_cast<int>(tokens.size()),
                  config_.vocab_size);
  }

  absl::Status Draft() {
    int32_t token = Argmax(LastRow("logits", config_.vocab_size));
    result_.ints["bonus_token"] = {token};
    // Row 0 of hidden_ becomes the hidden vector of the last token.
    const int last_row = (num_tokens_ - 1) % chunk_;
    int32_t* index = arrays_.Array<int32_t>(1, "row index");
    BOLE_RETURN_IF_ERROR(arrays_.status());
    BOLE_RETURN_IF_ERROR(backend_.Upload(index, &last_row, sizeof(last_row)));
    HostRows one;
    one.AddChain({&token, 1});
    BOLE_RETURN_IF_ERROR(Upload(chains_, one, num_tokens_ - 1));
    BOLE_RETURN_IF_ERROR(backend_.GatherRows({.rows = chains_.batch().rows,
                                              .width = config_.hidden_size,
                                              .index = index,
                                              .x = hidden_,
                                              .out = drafted_}));
    for (int step = 0; step < kDraftSteps; ++step) {
      std::swap(hidden_, drafted_);
      BOLE_RETURN_IF_ERROR(RunDrafter({&token, 1}, num_tokens_ - 1 + step,
                                      hidden_, "draft_logits"));
      token = Argmax(LastRow("draft_logits", config_.vocab_size));
      result_.ints["draft_tokens"].push_back(token);
    }
    return absl::OkStatus();
  }

  absl::Status VerifyTree() {
    BOLE_ASSIGN_OR_RETURN(const PackedForest forest,
                          BuildForest({&*options_.tree, 1}));
    BOLE_RETURN_IF_ERROR(Upload(tree_, RowsOf(forest), num_tokens_));
    const RowBatch& batch = tree_.batch();
    BOLE_RETURN_IF_ERROR(hybrid_.Forward({.batch = batch,
                                          .token = tree_.token(),
                                          .mode = ForwardMode::kVerify,
                                          .all_rows = {},
                                          .solver = options_.solver},
                                         hidden_));
    BOLE_RETURN_IF_ERROR(Score(batch.rows, hidden_));
    result_.ints["tree_tokens"] = options_.tree->token;
    result_.ints["tree_parents"] = options_.tree->parent;
    return Append("tree_logits", logits_, forest.num_nodes(),
                  config_.vocab_size);
  }

  // Saves state.L [Hv, dk, dv] and conv.L [C, taps] of every linear layer L.
  absl::Status SaveStates() {
    const GdnShape shape = GdnShapeOf(config_);
    const int64_t state_size = static_cast<int64_t>(shape.value_heads) *
                               shape.value_dim * shape.key_dim;
    const int64_t window_size =
        static_cast<int64_t>(shape.conv_taps) * shape.conv_width();
    const int64_t num_layers = memory_.states.num_layers;
    std::vector<float> states(num_layers * state_size);
    std::vector<float> windows(num_layers * window_size);
    BOLE_RETURN_IF_ERROR(backend_.Download(states.data(), memory_.states.state,
                                           states.size() * sizeof(float)));
    BOLE_RETURN_IF_ERROR(
        backend_.DownloadActivations(windows, memory_.states.window));
    int64_t place = 0;
    for (int layer = 0; layer < config_.num_layers(); ++layer) {
      if (config_.layer_kinds[layer] != LayerKind::kLinearAttention) continue;
      result_.floats[absl::StrCat("state.", layer)] = TransposeEach(
          std::span(states).subspan(place * state_size, state_size),
          shape.value_heads, shape.value_dim, shape.key_dim);
      ForwardResult::Floats conv = TransposeEach(
          std::span(windows).subspan(place * window_size, window_size), 1,
          shape.conv_taps, shape.conv_width());
      conv.shape.erase(conv.shape.begin());
      result_.floats[absl::StrCat("conv.", layer)] = std::move(conv);
      ++place;
    }
    return absl::OkStatus();
  }

  // Transposes [count, rows, columns] to [count, columns, rows].
  static ForwardResult::Floats TransposeEach(std::span<const float> x,
                                             int count, int rows, int columns) {
    ForwardResult::Floats out{{count, columns, rows}, {}};
    out.values.reserve(x.size());
    for (int i = 0; i < count; ++i) {
      for (int c = 0; c < columns; ++c) {
        for (int r = 0; r < rows; ++r) {
          out.values.push_back(
              x[(static_cast<size_t>(i) * rows + r) * columns + c]);
        }
      }
    }
    return out;
  }

  const LoadedModel& model_;
  const ModelConfig& config_;
  Backend& backend_;
  const ForwardOptions& options_;
  int num_tokens_;
  int chunk_;
  int max_rows_;
  int num_pages_;
  DeviceArrays arrays_;
  SequenceMemory memory_;
  Scratch scratch_;
  HybridModel hybrid_;
  RowBatchBuffer chains_;
  RowBatchBuffer tree_;
  std::unique_ptr<MtpLayer> drafter_;
  std::vector<PageId> pages_;
  Activation* hidden_;   // [max_rows, H] of the target.
  Activation* drafted_;  // [max_rows, H] of the drafter.
  float* logits_;        // [max_rows, V]
  ForwardResult result_;
};

absl::Status Check(const LoadedModel& model, const ForwardOptions& options) {
  if (options.ids.empty()) return absl::InvalidArgumentError("no ids");
  const int vocabulary = model.config.vocab_size;
  for (size_t i = 0; i < options.ids.size(); ++i) {
    if (options.ids[i] >= 0 && options.ids[i] < vocabulary) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("ids[", i, "] is ", options.ids[i],
                     ", not a token of 0 .. ", vocabulary - 1));
  }
  if (options.ids.size() + kMaxTreeNodes >
      static_cast<size_t>(model.config.max_context())) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.ids.size(), " ids and ", kMaxTreeNodes,
        " nodes exceed the context of ", model.config.max_context()));
  }
  if (!options.tree) return absl::OkStatus();
  BOLE_ASSIGN_OR_RETURN(const PackedForest forest,
                        BuildForest({&*options.tree, 1}));
  return Validate(forest, {.max_requests = 1,
                           .max_nodes = kMaxTreeNodes,
                           .max_nodes_per_request = kMaxTreeNodes,
                           .vocabulary = vocabulary});
}

}  // namespace

absl::StatusOr<ForwardResult> RunForward(const LoadedModel& model,
                                         Backend& backend,
                                         const ForwardOptions& options) {
  BOLE_RETURN_IF_ERROR(Check(model, options));
  return ForwardRun(model, backend, options).Run();
}

}  // namespace bole
