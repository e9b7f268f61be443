// Chunks and a forest in one forward, bit for bit what they are one after the
// other.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "tests/worker_service/engine/chunk_traffic.h"
#include "worker_service/engine/engine.h"
#include "worker_service/loading/loaded_model.h"

namespace bole::testing_support {
namespace {

constexpr DraftShape kTree{.top_k = 3, .depth = 4};
constexpr DraftShape kChain{.top_k = 1, .depth = 3};

// Counts the products with the target's matrices: each reads the weights once.
class CountingBackend final : public ReferenceBackend {
 public:
  CountingBackend() : ReferenceBackend(/*num_threads=*/1) {}

  absl::Status MatMul(const MatMulParams& params) override {
    ++num_products;
    return ReferenceBackend::MatMul(params);
  }
  absl::Status Moe(const MoeParams& params) override {
    ++num_products;
    return ReferenceBackend::Moe(params);
  }

  int num_products = 0;
};

class EngineJointTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    absl::StatusOr<LoadedModel> model = LoadModel(GetParam(), backend_);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }

  std::unique_ptr<Engine> NewEngine(TreeSolver solver = TreeSolver::kBlocks) {
    auto engine = Engine::Create(model_.config, *model_.weights, backend_,
                                 {.max_requests = 4,
                                  .max_nodes = 30,
                                  .max_nodes_per_tree = 12,
                                  .max_prefill_tokens = 96,
                                  .max_draft = kTree,
                                  .num_slots = 4,
                                  .num_pages = 48,
                                  .page_size = 16,
                                  .max_context = 160,
                                  .num_valid_tokens = model_.num_valid_tokens(),
                                  .solver = solver,
                                  .time_phases = true});
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

  // Prompts that end in chunks of their own, and in the chunk they began in.
  ChunkTraffic NewTraffic(const Engine& engine,
                          const std::optional<DraftShape>& draft,
                          uint32_t seed) const {
    std::vector<int32_t> text(400);
    for (int i = 0; i < 400; ++i) {
      text[i] = (17 + 7919 * i) % model_.num_valid_tokens();
    }
    return ChunkTraffic({.limits = engine.limits(),
                         .draft = draft,
                         .max_prompt = 130,
                         .text = text,
                         .seed = seed});
  }

  CountingBackend backend_;
  LoadedModel model_;
};

TEST_P(EngineJointTest, OneForwardIsBitForBitTwo) {
  const struct {
    std::optional<DraftShape> draft;
    TreeSolver solver;
  } cases[] = {{std::nullopt, TreeSolver::kBlocks},
               {kChain, TreeSolver::kBlocks},
               {kTree, TreeSolver::kBlocks},
               {kTree, TreeSolver::kSerial}};
  int num_joint = 0;
  int num_ends = 0;  // Of prompts, beside a forest.
  for (const auto& c : cases) {
    const std::unique_ptr<Engine> joint = NewEngine(c.solver);
    const std::unique_ptr<Engine> apart = NewEngine(c.solver);
    ChunkTraffic traffic = NewTraffic(*joint, c.draft, /*seed=*/5);
    for (int step = 0; step < 30; ++step) {
      SCOPED_TRACE(::testing::Message() << "step " << step);
      const StepPlan plan = traffic.Plan();

      const absl::StatusOr<StepResult> actual = joint->Step(plan);

      const absl::StatusOr<StepResult> expected = StepApart(*apart, plan);
      ASSERT_TRUE(expected.ok()) << expected.status();
      ASSERT_TRUE(actual.ok()) << actual.status();
      // Tokens, log probabilities and proposals; what states, keys and values
      // became shows in those of later steps.
      ASSERT_EQ(*actual, *expected);
      traffic.Apply(plan, *actual);
      if (plan.prefills.empty() || plan.sequences.empty()) continue;
      ++num_joint;
      for (const PrefillPlan& chunk : plan.prefills) {
        num_ends += chunk.next_token ? 0 : 1;
      }
    }
  }
  EXPECT_GT(num_joint, 60);
  EXPECT_GT(num_ends, 20);
}

TEST_P(EngineJointTest, TheWeightsAreReadOnce) {
  const std::unique_ptr<Engine> engine = NewEngine();
  ChunkTraffic traffic = NewTraffic(*engine, std::nullopt, /*seed=*/3);
  // A pass over every layer's matrices and the head's.
  int pass = 0;
  int num_joint = 0;
  for (int step = 0; step < 30; ++step) {
    const StepPlan plan = traffic.Plan();
    backend_.num_products = 0;
    const int64_t rounds = engine->times().rounds;

    const absl::StatusOr<StepResult> result = engine->Step(plan);

    ASSERT_TRUE(result.ok()) << result.status();
    traffic.Apply(plan, *result);
    bool asks = false;  // For log probabilities of a prompt.
    for (const PrefillPlan& chunk : plan.prefills) {
      asks = asks || chunk.prompt_logprobs;
    }
    if (plan.sequences.empty() || asks) continue;
    EXPECT_EQ(engine->times().rounds, rounds + 1);
    if (pass == 0) pass = backend_.num_products;
    EXPECT_EQ(backend_.num_products, pass);
    num_joint += plan.prefills.empty() ? 0 : 1;
  }
  EXPECT_GT(num_joint, 5);
  const EngineTimes& times = engine->times();
  EXPECT_GT(times.forward, 0);
  EXPECT_LE(times.forward + times.accept + times.draft, times.busy * 1.001);
}

INSTANTIATE_TEST_SUITE_P(Models, EngineJointTest,
                         ::testing::Values("synthetic:tiny,layers=4,noise=1",
                                           "synthetic:tiny-moe,layers=4,"
                                           "noise=1"),
                         [](const auto& info) {
                           return info.index == 0 ? "Dense" : "Moe";
                         });

}  // namespace
}  // namespace bole::testing_support
