#include "worker_service/eval/bench_steps.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/packed_forest.h"
#include "common/status_macros.h"
#include "worker_service/row_batch_buffer.h"

namespace bole {
namespace {

constexpr int kPageSize = 64;
constexpr double kTimedSeconds = 0.05;

// Rows and columns of the noise that memory is filled with.
constexpr int kNoiseRows = 4096;
constexpr int kNoiseColumns = 1024;

}  // namespace

absl::StatusOr<double> SecondsOf(Backend& backend,
                                 const std::function<absl::Status()>& queue) {
  const std::unique_ptr<GraphSet> graphs = backend.MakeGraphs(1);
  const auto run = [&](int times) -> absl::StatusOr<double> {
    BOLE_RETURN_IF_ERROR(backend.SetMark(0));
    for (int i = 0; i < times; ++i) {
      BOLE_RETURN_IF_ERROR(graphs->Replay({}, queue));
    }
    BOLE_RETURN_IF_ERROR(backend.SetMark(1));
    BOLE_RETURN_IF_ERROR(backend.AwaitMark(1));
    BOLE_ASSIGN_OR_RETURN(const double seconds, backend.SecondsBetween(0, 1));
    return seconds / times;
  };
  BOLE_RETURN_IF_ERROR(run(2).status());  // Chooses, captures.
  BOLE_ASSIGN_OR_RETURN(const double guess, run(2));
  const double times = kTimedSeconds / std::max(guess, 1e-6);
  return run(static_cast<int>(std::clamp(times, 3.0, 200.0)));
}

NodeList TreeOf(int nodes) {
  constexpr int kLevels = 8;
  const int width = std::max(1, (nodes - 1 + kLevels - 1) / kLevels);
  NodeList tree{.token = {0}, .parent = {kNoParent}};
  for (int i = 1; i < nodes; ++i) {
    const int level = (i - 1) / width;
    const int place = (i - 1) % width;
    tree.token.push_back(i);
    tree.parent.push_back(level == 0 ? 0 : 1 + (level - 1) * width + place / 2);
  }
  return tree;
}

struct StepBench::Rows {
  Rows(Backend& backend, const RowBatchCapacity& capacity)
      : arrays(backend), buffer(backend, capacity, "rows", arrays) {}

  DeviceArrays arrays;
  RowBatchBuffer buffer;
};

absl::StatusOr<std::unique_ptr<StepBench>> StepBench::Create(
    const LoadedModel& model, Backend& backend, const Capacity& capacity) {
  std::unique_ptr<StepBench> bench(new StepBench(model, backend, capacity));
  BOLE_RETURN_IF_ERROR(bench->arrays_.status());
  BOLE_RETURN_IF_ERROR(bench->FillMemory());
  return bench;
}

StepBench::StepBench(const LoadedModel& model, Backend& backend,
                     const Capacity& capacity)
    : model_(model),
      backend_(backend),
      capacity_(capacity),
      arrays_(backend),
      memory_(model.config,
              {.num_slots = capacity.batch,
               .num_pages = capacity.batch * PagesPerRequest(),
               .page_size = kPageSize},
              arrays_),
      scratch_(model.config, capacity.nodes, arrays_),
      hybrid_({model.config, *model.weights, backend, memory_, scratch_},
              {.max_forest_rows = capacity.nodes, .max_prefill_rows = 1},
              arrays_),
      hidden_(arrays_.Activations(
          int64_t{capacity.nodes} * model.config.hidden_size, "hidden")),
      logits_(arrays_.Array<float>(
          int64_t{capacity.nodes} * model.config.vocab_size, "logits")) {}

int StepBench::PagesPerRequest() const {
  return (capacity_.kv_tokens + kMaxTreeNodes) / kPageSize + 1;
}

int64_t StepBench::state_bytes() const {
  const GdnShape shape = GdnShapeOf(model_.config);
  return int64_t{4} * memory_.states.num_layers * shape.value_heads *
         shape.value_dim * shape.key_dim;
}

int64_t StepBench::kv_bytes() const {
  return int64_t{2} * model_.config.num_attention_layers() *
         model_.config.kv_dim() *
         static_cast<int64_t>(ElementBytes(backend_.activation_type()));
}

absl::Status StepBench::FillMemory() {
  BOLE_ASSIGN_OR_RETURN(
      noise_, backend_.GenerateMatrix({.pattern = MatrixPattern::kRandom,
                                       .rows = kNoiseRows,
                                       .columns = kNoiseColumns,
                                       .seed = 1,
                                       .stream = 1,
                                       .num_blocks = 1,
                                       .blocks = {{kNoiseRows, 1.0f, 0, 0}}}));
  const KvPages& pages = memory_.pages;
  const int64_t kv_elements = int64_t{pages.num_layers} * pages.num_pages *
                              model_.config.kv_dim() * kPageSize;
  BOLE_RETURN_IF_ERROR(FillActivations(pages.k, kv_elements));
  BOLE_RETURN_IF_ERROR(FillActivations(pages.v, kv_elements));
  const GdnStates& states = memory_.states;
  const GdnShape shape = GdnShapeOf(model_.config);
  BOLE_RETURN_IF_ERROR(FillActivations(
      states.window, int64_t{states.num_slots} * states.num_layers *
                         shape.conv_taps * shape.conv_width()));
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0, 0.1f);
  std::vector<float> state(state_bytes() / sizeof(float));
  for (float& x : state) x = normal(random);
  for (int slot = 0; slot < states.num_slots; ++slot) {
    BOLE_RETURN_IF_ERROR(
        backend_.Upload(states.state + slot * std::ssize(state), state.data(),
                        state.size() * sizeof(float)));
  }
  return absl::OkStatus();
}

// Rows of noise, one after the other.
absl::Status StepBench::FillActivations(Activation* out, int64_t count) {
  const int64_t rows = count / kNoiseColumns;
  std::vector<int32_t> tokens(std::min<int64_t>(rows, 1 << 16));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(i % kNoiseRows);
  }
  DeviceArrays arrays(backend_);
  const int32_t* token = arrays.Copy(tokens, "tokens");
  const auto element = ElementBytes(backend_.activation_type());
  for (int64_t row = 0; row < rows; row += std::ssize(tokens)) {
    const std::vector<int32_t> some = {static_cast<int32_t>(
        std::min<int64_t>(std::ssize(tokens), rows - row))};
    const int32_t* num_rows = arrays.Copy(some, "rows");
    BOLE_RETURN_IF_ERROR(arrays.status());
    char* at = reinterpret_cast<char*>(out) + row * kNoiseColumns * element;
    BOLE_RETURN_IF_ERROR(
        backend_.Embed({.rows = {num_rows, some[0]},
                        .token = token,
                        .table = noise_,
                        .out = reinterpret_cast<Activation*>(at)}));
  }
  int32_t done;  // Waits, for the arrays go.
  return rows == 0 ? absl::OkStatus()
                   : backend_.Download(&done, token, sizeof(done));
}

absl::StatusOr<std::unique_ptr<StepBench::Rows>> StepBench::Upload(
    const Step& step, int first_slot) {
  if (step.batch < 1 || step.batch > capacity_.batch ||
      step.nodes < step.batch || step.nodes > capacity_.nodes ||
      step.nodes > kMaxTreeNodes * step.batch || step.kv_tokens < 1 ||
      step.kv_tokens > capacity_.kv_tokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        step.nodes, " nodes of ", step.batch, " requests of ", step.kv_tokens,
        " tokens are more than ", capacity_.nodes, " nodes of ",
        capacity_.batch, " requests of ", capacity_.kv_tokens, ", or than ",
        kMaxTreeNodes, " a request"));
  }
  std::vector<NodeList> trees;
  std::vector<std::vector<PageId>> pages(step.batch);
  std::vector<HostSequence> sequences;
  trees.reserve(step.batch);
  sequences.reserve(step.batch);
  for (int b = 0; b < step.batch; ++b) {
    const int spare = step.nodes % step.batch;
    trees.push_back(TreeOf(step.nodes / step.batch + (b < spare ? 1 : 0)));
    for (int i = 0; i < PagesPerRequest(); ++i) {
      pages[b].emplace_back((first_slot + b) * PagesPerRequest() + i);
    }
    sequences.push_back({.slot = first_slot + b,
                         .committed = step.kv_tokens,
                         .pages = pages[b]});
  }
  BOLE_ASSIGN_OR_RETURN(const PackedForest forest, BuildForest(trees));
  auto rows = std::make_unique<Rows>(
      backend_,
      RowBatchCapacity{.max_requests = step.batch,
                       .max_rows = step.nodes,
                       .mask_words = forest.mask_words,
                       .max_path = 1 + *std::ranges::max_element(forest.depth),
                       .max_pages = PagesPerRequest()});
  BOLE_RETURN_IF_ERROR(rows->arrays.status());
  BOLE_RETURN_IF_ERROR(rows->buffer.Upload(RowsOf(forest), sequences));
  return rows;
}

absl::Status StepBench::QueueForward(const Step& step, const Rows& rows) {
  const bool is_decode = step.nodes == step.batch;
  BOLE_RETURN_IF_ERROR(hybrid_.Forward(
      {.batch = rows.buffer.batch(),
       .token = rows.buffer.token(),
       .mode = is_decode ? ForwardMode::kDecode : ForwardMode::kVerify,
       .all_rows = rows.buffer.all_rows(),
       .solver = step.solver},
      hidden_));
  return hybrid_.Logits(rows.buffer.batch().rows, hidden_, logits_);
}

absl::StatusOr<double> StepBench::ForwardSeconds(const Step& step) {
  BOLE_ASSIGN_OR_RETURN(const std::unique_ptr<Rows> rows, Upload(step));
  return SecondsOf(backend_, [&] { return QueueForward(step, *rows); });
}

absl::StatusOr<double> StepBench::CommitSeconds(const Step& step, int path) {
  BOLE_ASSIGN_OR_RETURN(std::unique_ptr<Rows> first_rows, Upload(step));
  // Makes the factors, which every turn reads.
  BOLE_RETURN_IF_ERROR(QueueForward(step, *first_rows));
  DeviceArrays& arrays = first_rows->arrays;
  std::vector<std::unique_ptr<Rows>> turns;
  turns.push_back(std::move(first_rows));
  for (int slot = step.batch; slot + step.batch <= capacity_.batch;
       slot += step.batch) {
    BOLE_ASSIGN_OR_RETURN(std::unique_ptr<Rows> rows, Upload(step, slot));
    turns.push_back(std::move(rows));
  }
  std::vector<int32_t> first = {0};
  std::vector<int32_t> row;
  for (int b = 0; b < step.batch; ++b) {
    const int nodes =
        step.nodes / step.batch + (b < step.nodes % step.batch ? 1 : 0);
    const int first_row =
        b * (step.nodes / step.batch) + std::min(b, step.nodes % step.batch);
    // One node of each level: the first.
    const int width = std::max(1, (nodes - 1 + 7) / 8);
    for (int i = 0; i < path; ++i) {
      const int node = i == 0 ? 0 : 1 + (i - 1) * width;
      if (node < nodes) row.push_back(first_row + node);
    }
    first.push_back(static_cast<int32_t>(row.size()));
  }
  const RowPath row_path = {arrays.Copy(first, "path"),
                            arrays.Copy(row, "path")};
  BOLE_RETURN_IF_ERROR(arrays.status());
  BOLE_ASSIGN_OR_RETURN(
      const double seconds, SecondsOf(backend_, [&]() -> absl::Status {
        for (const std::unique_ptr<Rows>& rows : turns) {
          BOLE_RETURN_IF_ERROR(hybrid_.Commit(rows->buffer.batch(), row_path));
        }
        return absl::OkStatus();
      }));
  return seconds / static_cast<double>(turns.size());
}

}  // namespace bole
