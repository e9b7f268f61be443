// What a round leaves in the recurrent states, on the demo model.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "common/select_nodes.h"
#include "gtest/gtest.h"
#include "tests/worker_service/eval/demo_model.h"
#include "worker_service/engine.h"

namespace bole::testing_support {
namespace {

constexpr int kMaxContext = 2048;
constexpr int kNodes = 33;

// One sequence on an engine of its own, stepped by hand.
class Sequence {
 public:
  explicit Sequence(const GenerateOptions& options)
      : demo_(DemoModel::Get()), options_(options) {
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(
        demo_.model().config, *demo_.model().weights, demo_.backend(),
        EngineOptionsFor(options, kMaxContext,
                         demo_.model().num_valid_tokens()));
    EXPECT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    plan_.max_new_tokens = kMaxContext;
    plan_.sampling.temperature = 0.8f;
    plan_.sampling.seed = 7;
    for (int i = 0; i < engine_->limits().num_pages; ++i) {
      plan_.pages.emplace_back(i);
    }
  }

  void Prefill(const std::vector<int32_t>& prompt) {
    plan_.prompt_length = static_cast<int32_t>(prompt.size());
    StepPlan plan{.draft = options_.draft};
    plan.prefills = {{.sequence = plan_, .tokens = prompt}};
    absl::StatusOr<StepResult> result = engine_->Step(plan);
    ASSERT_TRUE(result.ok()) << result.status();
    Keep(std::move(result->prefills[0]));
  }

  // One round on the best nodes of the last proposal. Returns the forest.
  PackedForest Round() {
    const std::vector<NodeRef> selected =
        SelectNodes({&tree_, 1}, options_.max_nodes_per_tree);
    return Run(PackForest({&tree_, 1}, selected).forest);
  }

  // One round on a lone root.
  void Feed(int32_t token) {
    const NodeList root{.token = {token}, .parent = {kNoParent}};
    Run(*BuildForest({&root, 1}));
  }

  // Every linear layer's state of slot 0.
  std::vector<float> States() const {
    const GdnStates& states = engine_->memory().states;
    const ModelConfig& config = demo_.model().config;
    std::vector<float> values(
        static_cast<size_t>(states.num_layers) * config.linear_num_value_heads *
        config.linear_value_head_dim * config.linear_key_head_dim);
    EXPECT_TRUE(demo_.backend()
                    .Download(values.data(), states.state,
                              values.size() * sizeof(float))
                    .ok());
    return values;
  }

  const Engine& engine() const { return *engine_; }
  const SequenceResult& last() const { return last_; }
  int32_t pending() const { return tree_.token[0]; }

 private:
  PackedForest Run(PackedForest forest) {
    StepPlan plan{.draft = options_.draft};
    plan.sequences = {plan_};
    plan.forest = std::move(forest);
    absl::StatusOr<StepResult> result = engine_->Step(plan);
    EXPECT_TRUE(result.ok()) << result.status();
    Keep(std::move(result->sequences[0]));
    return std::move(plan.forest);
  }

  void Keep(SequenceResult result) {
    plan_.committed = result.committed;
    tree_ = {.parent = {kNoParent},
             .token = {result.emitted.back().token},
             .log_rho = {0}};
    if (result.proposal) tree_ = *result.proposal;
    last_ = std::move(result);
  }

  DemoModel& demo_;
  GenerateOptions options_;
  std::unique_ptr<Engine> engine_;
  SequencePlan plan_;
  ProposalTree tree_;
  SequenceResult last_;
};

// The rows that a walk along the emitted tokens visits.
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

// The factors of one row of one layer, as if the batch had no other.
GdnFactors RowOf(const GdnFactors& factors, const GdnShape& shape, int layer,
                 int row) {
  const int64_t at = static_cast<int64_t>(layer) * factors.layer_rows + row;
  const auto shift = [at](Activation* base, int width) {
    return reinterpret_cast<Activation*>(reinterpret_cast<float*>(base) +
                                         at * width);
  };
  return {.raw = shift(factors.raw, shape.conv_width()),
          .k = shift(factors.k, shape.key_width()),
          .v = shift(factors.v, shape.value_width()),
          .k_scale = factors.k_scale + at * shape.key_heads,
          .beta = factors.beta + at * shape.value_heads,
          .log_decay = factors.log_decay + at * shape.value_heads,
          .layer_rows = 0};
}

// Advances `states` by plain decoding over the recorded operands of the path.
void DecodeOver(const GdnFactors& factors, const std::vector<int>& path,
                std::vector<float>& states) {
  DemoModel& demo = DemoModel::Get();
  const GdnShape shape = GdnShapeOf(demo.model().config);
  const int num_layers = demo.model().config.num_linear_layers();
  const int32_t zero = 0;
  const int32_t one = 1;
  const int32_t none = -1;
  const int32_t first_row[] = {0, 1};
  std::vector<float> q(shape.key_width());
  std::vector<float> q_scale(shape.key_heads);
  std::vector<float> out(shape.value_width());
  const RowBatch batch{.max_requests = 1,
                       .max_pages = 0,
                       .mask_words = 0,
                       .rows = {&one, 1},
                       .first_row = first_row,
                       .request = &zero,
                       .node = &zero,
                       .parent = &none,
                       .depth = &zero,
                       .ancestors = nullptr,
                       .slot = &zero,
                       .committed = &one,
                       .page_table = nullptr};
  for (int layer = 0; layer < num_layers; ++layer) {
    for (int row : path) {
      ASSERT_TRUE(
          demo.backend()
              .GdnDecode({.batch = batch,
                          .shape = shape,
                          .states = {states.data(), nullptr, 1, num_layers},
                          .layer = layer,
                          .q = reinterpret_cast<Activation*>(q.data()),
                          .q_scale = q_scale.data(),
                          .factors = RowOf(factors, shape, 0,
                                           layer * factors.layer_rows + row),
                          .solver = TreeSolver::kBlocks,
                          .out = reinterpret_cast<Activation*>(out.data())})
              .ok());
    }
  }
}

TEST(EngineCommitTest, IsBitwiseTheRecurrenceOverThePathsOwnOperands) {
  Sequence sequence(Tree(kNodes - 1, 1));
  sequence.Prefill(DemoModel::Get().Prompts()[0]);

  int accepted = 0;
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    std::vector<float> want = sequence.States();
    const PackedForest forest = sequence.Round();
    const std::vector<int> path = PathOf(forest, sequence.last().emitted);
    DecodeOver(sequence.engine().model().factors(), path, want);

    const std::vector<float> got = sequence.States();

    ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)),
              0);
    accepted += sequence.last().accepted_drafts;
  }
  EXPECT_GT(accepted, 20);
}

// The largest difference of any layer, relative to the layer's largest value.
double Distance(const std::vector<float>& a, const std::vector<float>& b,
                int num_layers) {
  const size_t size = a.size() / num_layers;
  double worst = 0;
  for (size_t layer = 0; layer < a.size(); layer += size) {
    double largest = 0;
    double difference = 0;
    for (size_t i = layer; i < layer + size; ++i) {
      largest = std::max(largest, std::abs(double{b[i]}));
      difference = std::max(difference, std::abs(double{a[i]} - b[i]));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

// The path's operands come through layers whose outputs the closed form rounds
// differently from the recurrence; the gated recurrence forgets that.
TEST(EngineCommitTest, StatesDoNotDriftFromPlainDecoding) {
  constexpr int kRounds = 200;
  const std::vector<int32_t> prompt = DemoModel::Get().Prompts()[0];
  const int num_layers = DemoModel::Get().model().config.num_linear_layers();
  Sequence speculative(Tree(kNodes - 1, 1));
  Sequence plain(Off(1));
  speculative.Prefill(prompt);
  plain.Prefill(prompt);

  std::vector<double> distance;
  int32_t root = speculative.pending();
  for (int round = 0; round < kRounds; ++round) {
    speculative.Round();
    for (const EmittedToken& token : speculative.last().emitted) {
      plain.Feed(std::exchange(root, token.token));
    }
    distance.push_back(
        Distance(speculative.States(), plain.States(), num_layers));
  }

  const auto middle = distance.begin() + kRounds / 2;
  const double first_half = *std::max_element(distance.begin(), middle);
  const double second_half = *std::max_element(middle, distance.end());
  RecordProperty("first_half", std::to_string(first_half));
  RecordProperty("second_half", std::to_string(second_half));
  EXPECT_LE(std::max(first_half, second_half), 1e-5);
  // Of one size: a drift that grew with the rounds would double.
  EXPECT_LE(second_half, 2 * first_half);
}

}  // namespace
}  // namespace bole::testing_support
