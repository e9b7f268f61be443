// Prefill chunks on the demo model: what runs for them, and what comes of them.
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "tests/worker_service/eval/demo_model.h"
#include "worker_service/engine/engine.h"

namespace bole::testing_support {
namespace {

constexpr DraftShape kTree{.top_k = 3, .depth = 4};

// Counts the products with one matrix, and the draws.
class CountingBackend final : public ReferenceBackend {
 public:
  CountingBackend() : ReferenceBackend(/*num_threads=*/1) {}

  absl::Status MatMul(const MatMulParams& params) override {
    num_heads += params.weight == head ? 1 : 0;
    return ReferenceBackend::MatMul(params);
  }
  absl::Status Sample(const SampleParams& params) override {
    ++num_samples;
    return ReferenceBackend::Sample(params);
  }

  const WeightMatrix* head = nullptr;
  int num_heads = 0;
  int num_samples = 0;
};

class EnginePrefillTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<LoadedModel> model = LoadModel("models/demo", backend_);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    const GenerateOptions sizes{
        .draft = kTree, .max_nodes_per_tree = 12, .max_batch = 2};
    auto engine = Engine::Create(model_.config, *model_.weights, backend_,
                                 EngineOptionsFor(sizes, /*max_context=*/400,
                                                  model_.num_valid_tokens()));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  // 200 tokens of the demo's prompts.
  static std::vector<int32_t> LongPrompt(int skip) {
    std::vector<int32_t> prompt;
    for (const auto& tokens : DemoModel::Get().Prompts()) {
      prompt.insert(prompt.end(), tokens.begin(), tokens.end());
    }
    return {prompt.begin() + skip, prompt.begin() + skip + 200};
  }

  // Tokens begin .. end - 1 of a prompt whose sequence has slot and pages of
  // that number.
  PrefillPlan Chunk(const std::vector<int32_t>& prompt, int number, int begin,
                    int end) const {
    PrefillPlan chunk{.sequence = {.slot = SlotId(number), .committed = begin},
                      .tokens = {prompt.begin() + begin, prompt.begin() + end}};
    const int pages = engine_->limits().num_pages / 2;
    for (int i = 0; i < pages; ++i) {
      chunk.sequence.pages.emplace_back(number * pages + i);
    }
    chunk.sequence.prompt_length = static_cast<int32_t>(prompt.size());
    if (end < std::ssize(prompt)) chunk.next_token = prompt[end];
    return chunk;
  }

  std::vector<SequenceResult> Run(std::vector<PrefillPlan> chunks) {
    StepPlan plan{.draft = kTree};
    plan.prefills = std::move(chunks);
    backend_.num_samples = 0;
    absl::StatusOr<StepResult> result = engine_->Step(plan);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->prefills : std::vector<SequenceResult>();
  }

  CountingBackend backend_;
  LoadedModel model_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EnginePrefillTest, ChunksThatEndNoPromptDoNotRunTheHead) {
  const std::vector<int32_t> prompt = LongPrompt(0);
  const std::vector<SequenceResult> whole = Run({Chunk(prompt, 0, 0, 200)});
  EXPECT_EQ(backend_.num_samples, 1);
  backend_.head = model_.weights->head;

  for (const int begin : {0, 64}) {
    const std::vector<SequenceResult> middle =
        Run({Chunk(prompt, 1, begin, begin + 64)});

    EXPECT_EQ(backend_.num_samples, 0);
    EXPECT_EQ(backend_.num_heads, 0);
    EXPECT_EQ(middle, (std::vector<SequenceResult>{{.committed = begin + 64,
                                                    .emitted = {},
                                                    .accepted_drafts = 0,
                                                    .proposal = {}}}));
  }
  const std::vector<SequenceResult> last = Run({Chunk(prompt, 1, 128, 200)});

  EXPECT_EQ(backend_.num_samples, 1);
  EXPECT_GT(backend_.num_heads, 0);
  // Token, log probability and drafts, bit for bit.
  EXPECT_EQ(last, whole);
}

TEST_F(EnginePrefillTest,
       AChunkThatEndsItsPromptIsDrawnForBesideOneThatDoesNot) {
  const std::vector<int32_t> first = LongPrompt(0);
  const std::vector<int32_t> second = LongPrompt(37);
  const std::vector<SequenceResult> alone = Run({Chunk(first, 0, 0, 200)});

  const std::vector<SequenceResult> both =
      Run({Chunk(second, 1, 0, 64), Chunk(first, 0, 0, 200)});

  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].committed, 64);
  EXPECT_TRUE(both[0].emitted.empty());
  EXPECT_FALSE(both[0].proposal.has_value());
  EXPECT_EQ(both[1], alone[0]);
}

}  // namespace
}  // namespace bole::testing_support
