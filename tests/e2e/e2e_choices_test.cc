// Several texts of one prompt, and what is told of the prompt and of tokens, by
// the demo model.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/tokenizer/tokenizer.h"
#include "gtest/gtest.h"
#include "tests/e2e/call.h"
#include "tests/e2e/system.h"

namespace bole::e2e {
namespace {

constexpr char kPrompt[] = "def fibonacci(n):\n";

v1::GenerateRequest Ask(uint32_t n, uint64_t seed, int max_tokens = 24) {
  v1::GenerateRequest request = GreedyRequest(kPrompt, max_tokens);
  request.set_n(n);
  request.mutable_sampling_params()->set_temperature(0.9f);
  request.mutable_sampling_params()->set_presence_penalty(0.5f);
  request.mutable_sampling_params()->set_seed(seed);
  return request;
}

// All tests share one pair of services; each leaves it idle.
class E2eChoicesTest : public ::testing::Test {
 protected:
  static System& system() {
    static System system;
    return system;
  }
  void TearDown() override { system().ExpectIdle(); }

  static std::vector<Generation> Run(const v1::GenerateRequest& request) {
    std::vector<Generation> choices = GenerateChoices(system().stub(), request);
    for (Generation& choice : choices) {
      EXPECT_TRUE(choice.status.ok()) << choice.status.error_message();
      EXPECT_TRUE(choice.complete.has_value());
      if (!choice.complete) choice.complete.emplace();
    }
    return choices;
  }
};

TEST_F(E2eChoicesTest, ChoicesAreTheTextsOfSingleRequestsWithTheNextSeeds) {
  v1::GenerateRequest request = Ask(4, 11);
  const std::vector<Generation> streamed = Run(request);
  request.set_stream(false);
  const std::vector<Generation> whole = Run(request);

  for (uint32_t i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    const Generation single = Run(Ask(1, 11 + i))[0];
    for (const Generation& choice : {streamed[i], whole[i]}) {
      EXPECT_EQ(choice.ids(), single.ids());
      EXPECT_EQ(choice.text(), single.text());
      EXPECT_EQ(choice.complete->seed(), 11 + i);
    }
  }
  EXPECT_NE(streamed[0].ids(), streamed[1].ids());
}

TEST_F(E2eChoicesTest, EachChoiceGoesOnFromWhereItsStreamBroke) {
  const std::vector<Generation> whole = Run(Ask(3, 5));
  for (const size_t had : {1, 9, 20}) {
    SCOPED_TRACE(had);
    v1::GenerateRequest request = Ask(3, 5);
    const std::vector<int32_t> ids = whole[0].ids();
    request.add_resume()->mutable_output_ids()->Assign(ids.begin(),
                                                       ids.begin() + had);
    request.add_resume();
    request.add_resume()->set_complete(true);

    std::vector<Generation> rest = GenerateChoices(system().stub(), request);

    ASSERT_TRUE(rest[0].status.ok()) << rest[0].status.error_message();
    EXPECT_EQ(rest[0].ids(),
              std::vector<int32_t>(ids.begin() + had, ids.end()));
    EXPECT_EQ(rest[1].ids(), whole[1].ids());
    EXPECT_FALSE(rest[2].complete.has_value());
    EXPECT_TRUE(rest[2].ids().empty());
  }
}

TEST_F(E2eChoicesTest, BytesOfTokensPutTogetherAreTheirText) {
  const auto tokenizer = Tokenizer::Load("models/demo/tokenizer.json");
  BOLE_CHECK(tokenizer.ok());
  v1::GenerateRequest request = Ask(1, 3);
  request.set_echo(true);
  request.mutable_sampling_params()->set_logprobs(2);
  request.mutable_sampling_params()->set_skip_special_tokens(false);

  const Generation got = Run(request)[0];

  std::string bytes;
  for (const v1::TokenLogprob& logprob : got.logprobs()) {
    bytes += logprob.bytes();
    for (const v1::TopLogprob& top : logprob.top()) {
      EXPECT_EQ(top.bytes(),
                (*tokenizer)->TokenBytes(static_cast<int32_t>(top.token_id())));
    }
  }
  EXPECT_EQ(bytes, got.text());
  const v1::PromptOutput& prompt = got.chunks[0].prompt();
  EXPECT_EQ(prompt.text(), kPrompt);
  EXPECT_EQ(std::vector<int32_t>(prompt.token_ids().begin(),
                                 prompt.token_ids().end()),
            *(*tokenizer)->Encode(kPrompt));
}

}  // namespace
}  // namespace bole::e2e
