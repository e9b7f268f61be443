// Log probabilities of a prompt that an engine reports, against those of one
// full forward.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "tests/worker_service/eval/demo_model.h"
#include "tests/worker_service/eval/dense_runs.h"
#include "worker_service/engine/engine.h"
#include "worker_service/eval/forward.h"
#include "worker_service/eval/generator.h"
#include "worker_service/loading/loaded_model.h"

namespace bole::testing_support {
namespace {

constexpr float kTolerance = 1e-4f;
constexpr int kVocabulary = 512;
constexpr int kNumValid = 500;
constexpr int kPrompt = 150;
constexpr int kBatch = 3;  // Rows of a head.

// The reference, which makes one row of a draw bad.
class PoisonedBackend final : public ReferenceBackend {
 public:
  PoisonedBackend() : ReferenceBackend(/*num_threads=*/1) {}

  absl::Status Sample(const SampleParams& params) override {
    if (++num_draws == bad_draw) {
      const_cast<float*>(params.logits)[int64_t{1} * params.vocabulary + 4] =
          std::numeric_limits<float>::quiet_NaN();
    }
    return ReferenceBackend::Sample(params);
  }

  int num_draws = 0;
  int bad_draw = 0;  // Counted from 1.
};

// The tokens of a row by their log probability, the lower id first of equals.
std::vector<TokenLogprob> Ranked(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float z : logits) sum += std::exp(z - max);
  std::vector<TokenLogprob> ranked;
  ranked.reserve(logits.size());
  for (int32_t token = 0; token < std::ssize(logits); ++token) {
    ranked.push_back(
        {token, static_cast<float>(logits[token] - max - std::log(sum))});
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](auto& a, auto& b) { return a.logprob > b.logprob; });
  return ranked;
}

class PromptLogprobsTest
    : public ::testing::TestWithParam<std::optional<DraftShape>> {
 protected:
  static void SetUpTestSuite() {
    backend_ = new PoisonedBackend;
    absl::StatusOr<LoadedModel> model =
        LoadModel("tests/golden/dense", *backend_);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = new LoadedModel(*std::move(model));
  }
  static void TearDownTestSuite() {
    delete model_;
    delete backend_;
  }

  void SetUp() override {
    const GenerateOptions sizes{
        .draft = GetParam(), .max_nodes_per_tree = 12, .max_batch = kBatch};
    auto engine =
        Engine::Create(model_->config, *model_->weights, *backend_,
                       EngineOptionsFor(sizes, kMaxContext, kNumValid));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    std::mt19937 rng(1);
    prompt_ = RandomRequest(rng, kPrompt, 1).prompt;
    for (int32_t& token : prompt_) token %= kNumValid;
    backend_->num_draws = 0;
    backend_->bad_draw = 0;
  }

  PrefillPlan Chunk(int number, int begin, int end) const {
    PrefillPlan chunk{
        .sequence = {.slot = SlotId(number),
                     .committed = begin,
                     .prompt_length = static_cast<int32_t>(prompt_.size())},
        .tokens = {prompt_.begin() + begin, prompt_.begin() + end}};
    const int pages = engine_->limits().num_pages / kBatch;
    for (int i = 0; i < pages; ++i) {
      chunk.sequence.pages.emplace_back(number * pages + i);
    }
    if (end < std::ssize(prompt_)) chunk.next_token = prompt_[end];
    return chunk;
  }

  std::vector<SequenceResult> Run(std::vector<PrefillPlan> chunks) {
    StepPlan plan{.draft = GetParam()};
    plan.prefills = std::move(chunks);
    absl::StatusOr<StepResult> result = engine_->Step(plan);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->prefills
                       : std::vector<SequenceResult>(plan.prefills.size());
  }

  // The prompt in chunks that end at `ends`.
  std::vector<EmittedToken> RunChunks(const std::vector<int>& ends,
                                      int num_top) {
    std::vector<EmittedToken> reported;
    int begin = 0;
    for (const int end : ends) {
      PrefillPlan chunk = Chunk(0, begin, end);
      chunk.prompt_logprobs = num_top;
      const SequenceResult result = Run({chunk})[0];
      EXPECT_EQ(std::ssize(result.prompt_logprobs), chunk.NumPromptFollowers());
      reported.insert(reported.end(), result.prompt_logprobs.begin(),
                      result.prompt_logprobs.end());
      begin = end;
    }
    return reported;
  }

  // The prompt's tokens but the first, as one forward of all has them.
  void ExpectAsDefined(const std::vector<EmittedToken>& reported,
                       int num_top) const {
    const absl::StatusOr<ForwardResult> forward =
        RunForward(*model_, *backend_,
                   {.ids = prompt_,
                    .tree = {},
                    .chunk = 0,
                    .solver = TreeSolver::kBlocks});
    ASSERT_TRUE(forward.ok()) << forward.status();
    const std::vector<float>& logits = forward->floats.at("logits").values;
    ASSERT_EQ(reported.size(), prompt_.size() - 1);
    for (size_t i = 0; i < reported.size(); ++i) {
      SCOPED_TRACE(i);
      const std::vector<TokenLogprob> ranked =
          Ranked(std::span(logits).subspan(i * kVocabulary, kNumValid));
      EXPECT_EQ(reported[i].token, prompt_[i + 1]);
      const auto own = std::find_if(ranked.begin(), ranked.end(), [&](auto& t) {
        return t.token == reported[i].token;
      });
      EXPECT_NEAR(reported[i].logprob, own->logprob, kTolerance);
      ASSERT_EQ(std::ssize(reported[i].top), num_top);
      for (int k = 0; k < num_top; ++k) {
        EXPECT_NEAR(reported[i].top[k].logprob, ranked[k].logprob, kTolerance);
      }
    }
  }

  static PoisonedBackend* backend_;
  static LoadedModel* model_;
  std::unique_ptr<Engine> engine_;
  std::vector<int32_t> prompt_;
};
PoisonedBackend* PromptLogprobsTest::backend_ = nullptr;
LoadedModel* PromptLogprobsTest::model_ = nullptr;

TEST_P(PromptLogprobsTest, AreThoseOfAFullForwardInAnyChunks) {
  ExpectAsDefined(RunChunks({kPrompt}, 0), 0);
  ExpectAsDefined(RunChunks({64, 128, kPrompt}, 20), 20);
  ExpectAsDefined(RunChunks({1, 2, 37, kPrompt - 1, kPrompt}, 3), 3);
}

// Chunks of one plan, of which one does not ask.
TEST_P(PromptLogprobsTest, EveryChunkOfAPlanGetsWhatItAskedFor) {
  std::vector<PrefillPlan> chunks = {Chunk(0, 0, kPrompt), Chunk(1, 0, 50),
                                     Chunk(2, 0, kPrompt)};
  const std::vector<SequenceResult> plain = Run(chunks);
  chunks[0].prompt_logprobs = 2;
  chunks[2].prompt_logprobs = 0;

  const std::vector<SequenceResult> asked = Run(chunks);

  ExpectAsDefined(asked[0].prompt_logprobs, 2);
  ExpectAsDefined(asked[2].prompt_logprobs, 0);
  EXPECT_TRUE(asked[1].prompt_logprobs.empty());
  // All else is as it was, bit for bit.
  for (size_t i = 0; i < asked.size(); ++i) {
    SequenceResult rest = asked[i];
    rest.prompt_logprobs.clear();
    EXPECT_EQ(rest, plain[i]);
  }
}

// As a job that goes on elsewhere is read: its output follows the prompt.
TEST_P(PromptLogprobsTest, TokensOfTheOutputHaveNone) {
  PrefillPlan chunk = Chunk(0, 0, 100);
  chunk.sequence.prompt_length = 80;
  chunk.prompt_logprobs = 1;
  EXPECT_EQ(Run({chunk})[0].prompt_logprobs.size(), 79u);

  PrefillPlan output = Chunk(0, 100, 120);
  output.sequence.prompt_length = 80;
  output.prompt_logprobs = 1;
  EXPECT_TRUE(Run({output})[0].prompt_logprobs.empty());
}

TEST_P(PromptLogprobsTest, ATokenThatIsNeverDrawnHasNoProbability) {
  prompt_[2] = kNumValid;
  PrefillPlan chunk = Chunk(0, 0, kPrompt);
  chunk.prompt_logprobs = 0;

  const std::vector<EmittedToken> reported = Run({chunk})[0].prompt_logprobs;

  ASSERT_EQ(reported.size(), kPrompt - 1u);
  EXPECT_EQ(reported[1].token, kNumValid);
  EXPECT_EQ(reported[1].logprob, -std::numeric_limits<float>::infinity());
  EXPECT_GT(reported[2].logprob, -100);
}

// The first draw is of the token after the prompt, each of the others of three
// rows.
TEST_P(PromptLogprobsTest, ASequenceFailsWhereItsLogitsAreNotNumbers) {
  PrefillPlan chunk = Chunk(0, 0, kPrompt);
  chunk.prompt_logprobs = 1;
  backend_->bad_draw = 3;

  const SequenceResult result = Run({chunk})[0];

  EXPECT_EQ(result.bad_logits_position, 4);
  EXPECT_EQ(result.committed, kPrompt);
  EXPECT_TRUE(result.prompt_logprobs.empty());
  EXPECT_TRUE(result.emitted.empty());
  EXPECT_FALSE(result.proposal.has_value());
}

INSTANTIATE_TEST_SUITE_P(Drafts, PromptLogprobsTest,
                         ::testing::Values(std::nullopt,
                                           DraftShape{.top_k = 1, .depth = 3},
                                           DraftShape{.top_k = 3, .depth = 4}),
                         [](const auto& test) -> std::string {
                           if (!test.param) return "off";
                           return test.param->top_k == 1 ? "chain" : "tree";
                         });

}  // namespace
}  // namespace bole::testing_support
