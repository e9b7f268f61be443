#include "tests/worker_service/engine/stepped_sequence.h"

#include <cstddef>
#include <utility>

#include "common/select_nodes.h"
#include "gtest/gtest.h"
#include "worker_service/model/device_arrays.h"
#include "worker_service/model/layer_context.h"

namespace bole::testing_support {
namespace {

// The recorded operands of one row of one layer, as if there were no other.
GdnFactors RowOf(const GdnFactors& factors, const GdnShape& shape, int64_t at,
                 size_t element_bytes) {
  const auto shift = [&](Activation* base, int width) {
    return reinterpret_cast<Activation*>(
        reinterpret_cast<char*>(base) +
        at * width * static_cast<int64_t>(element_bytes));
  };
  return {.raw = shift(factors.raw, shape.conv_width()),
          .k = shift(factors.k, shape.key_width()),
          .v = shift(factors.v, shape.value_width()),
          .k_scale = factors.k_scale + at * shape.key_heads,
          .beta = factors.beta + at * shape.value_heads,
          .log_decay = factors.log_decay + at * shape.value_heads,
          .layer_rows = 0};
}

}  // namespace

SteppedSequence::SteppedSequence(const LoadedModel& model, Backend& backend,
                                 const GenerateOptions& options,
                                 float temperature)
    : model_(model), backend_(backend), options_(options) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(
      model.config, *model.weights, backend,
      EngineOptionsFor(options, kMaxContext, model.num_valid_tokens()));
  EXPECT_TRUE(engine.ok()) << engine.status();
  engine_ = *std::move(engine);
  plan_.max_new_tokens = kMaxContext;
  plan_.sampling.temperature = temperature;
  plan_.sampling.seed = 7;
  for (int i = 0; i < engine_->limits().num_pages; ++i) {
    plan_.pages.emplace_back(i);
  }
}

void SteppedSequence::Prefill(const std::vector<int32_t>& prompt) {
  plan_.prompt_length = static_cast<int32_t>(prompt.size());
  StepPlan plan{.draft = options_.draft};
  plan.prefills = {{.sequence = plan_, .tokens = prompt}};
  absl::StatusOr<StepResult> result = engine_->Step(plan);
  ASSERT_TRUE(result.ok()) << result.status();
  Keep(std::move(result->prefills[0]));
}

PackedForest SteppedSequence::Round() {
  const std::vector<NodeRef> selected =
      SelectNodes({&tree_, 1}, options_.max_nodes_per_tree);
  return Run(PackForest({&tree_, 1}, selected).forest);
}

void SteppedSequence::Feed(int32_t token) {
  const NodeList root{.token = {token}, .parent = {kNoParent}};
  Run(*BuildForest({&root, 1}));
}

std::vector<float> SteppedSequence::States() const {
  const GdnStates& states = engine_->memory().states;
  const GdnShape shape = GdnShapeOf(model_.config);
  std::vector<float> values(static_cast<size_t>(states.num_layers) *
                            shape.value_width() * shape.key_dim);
  EXPECT_TRUE(
      backend_
          .Download(values.data(), states.state, values.size() * sizeof(float))
          .ok());
  return values;
}

PackedForest SteppedSequence::Run(PackedForest forest) {
  StepPlan plan{.draft = options_.draft};
  plan.sequences = {plan_};
  plan.forest = std::move(forest);
  absl::StatusOr<StepResult> result = engine_->Step(plan);
  EXPECT_TRUE(result.ok()) << result.status();
  Keep(std::move(result->sequences[0]));
  return std::move(plan.forest);
}

void SteppedSequence::Keep(SequenceResult result) {
  plan_.committed = result.committed;
  tree_ = {.parent = {kNoParent},
           .token = {result.emitted.back().token},
           .log_rho = {0}};
  if (result.proposal) tree_ = *result.proposal;
  last_ = std::move(result);
}

std::vector<int> PathOf(const PackedForest& forest,
                        const std::vector<EmittedToken>& emitted) {
  std::vector<int> path = {0};
  for (size_t i = 0; i + 1 < emitted.size(); ++i) {
    for (int row = 0; row < forest.num_nodes(); ++row) {
      if (forest.parent[row] == path.back() &&
          forest.token[row] == emitted[i].token) {
        path.push_back(row);
        break;
      }
    }
  }
  EXPECT_EQ(path.size(), emitted.size());
  return path;
}

void DecodeOver(const SteppedSequence& sequence, const std::vector<int>& path,
                std::vector<float>& states) {
  Backend& backend = sequence.backend();
  const size_t element_bytes = ElementBytes(backend.activation_type());
  const GdnShape shape = GdnShapeOf(sequence.model().config);
  const GdnFactors& factors = sequence.engine().model().factors();
  const int num_layers = sequence.num_layers();
  DeviceArrays arrays(backend);
  const auto one_int = [&](int32_t value) {
    return arrays.Copy(std::vector<int32_t>{value}, "an integer");
  };
  float* state = arrays.Array<float>(std::ssize(states), "states");
  Activation* q = arrays.Activations(shape.key_width(), "q");
  Activation* out = arrays.Activations(shape.value_width(), "out");
  const float* q_scale =
      arrays.Copy(std::vector<float>(shape.key_heads, 0), "q scale");
  const int32_t* zero = one_int(0);
  const int32_t* one = one_int(1);
  const int32_t* none = one_int(-1);
  const RowBatch batch{
      .max_requests = 1,
      .max_pages = 0,
      .mask_words = 0,
      .rows = {one, 1},
      .first_row = arrays.Copy(std::vector<int32_t>{0, 1}, "first row"),
      .request = zero,
      .node = zero,
      .parent = none,
      .depth = zero,
      .ancestors = nullptr,
      .slot = zero,
      .committed = one,
      .page_table = nullptr};
  ASSERT_TRUE(arrays.status().ok()) << arrays.status();
  const size_t bytes = states.size() * sizeof(float);
  ASSERT_TRUE(backend.Upload(state, states.data(), bytes).ok());
  for (int layer = 0; layer < num_layers; ++layer) {
    for (const int row : path) {
      const int64_t at = static_cast<int64_t>(layer) * factors.layer_rows + row;
      const absl::Status status = backend.GdnDecode(
          {.batch = batch,
           .shape = shape,
           .states = {state, nullptr, 1, num_layers},
           .layer = layer,
           .q = q,
           .q_scale = q_scale,
           .factors = RowOf(factors, shape, at, element_bytes),
           .solver = TreeSolver::kBlocks,
           .out = out});
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  ASSERT_TRUE(backend.Download(states.data(), state, bytes).ok());
}

}  // namespace bole::testing_support
