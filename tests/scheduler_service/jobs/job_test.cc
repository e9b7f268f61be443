#include "scheduler_service/jobs/job.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/step.h"
#include "common/tokenizer/tokenizer.h"
#include "gtest/gtest.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/jobs/token_stream.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/scheduler_service/requests.h"

namespace bole {
namespace {

using ::bole::testing::MakeRequest;
using ::bole::testing::MakeTinyTokenizer;

class JobTest : public ::testing::Test {
 protected:
  JobTest() : request_(MakeRequest({'p', 'q', 'r', 's'}, /*max_tokens=*/20)) {}

  Job MakeJob() { return Job(std::move(request_), *tokenizer_); }
  static std::vector<EmittedToken> Tokens(const std::string& letters) {
    std::vector<EmittedToken> tokens;
    for (const char letter : letters) {
      tokens.push_back({.token = letter, .logprob = -1, .top = {}});
    }
    return tokens;
  }

  std::unique_ptr<Tokenizer> tokenizer_ = MakeTinyTokenizer();
  std::unique_ptr<Request> request_;
};

TEST_F(JobTest, AStopStringEndsNothingBeforeMinTokens) {
  request_->text.stop = {"ab"};
  request_->sampling.min_tokens = 5;
  Job job = MakeJob();

  const Job::Progress first = job.Advance(Tokens("abx"));
  EXPECT_FALSE(first.end.has_value());
  EXPECT_EQ(first.text, "abx");
  const Job::Progress last = job.Advance(Tokens("abc"));
  EXPECT_EQ(last.end, MatchedStop(std::string("ab")));
  EXPECT_EQ(last.tokens.size(), 2u);
  EXPECT_EQ(last.text, "");
}

TEST_F(JobTest, ResumedOutputCountsAsOutput) {
  request_->text.stop = {"ab"};
  request_->sampling.min_tokens = 5;
  request_->resumed = {'a', 'b', 'x'};
  Job job = MakeJob();

  const Job::Progress progress = job.Advance(Tokens("abc"));

  EXPECT_EQ(progress.end, MatchedStop(std::string("ab")));
  EXPECT_EQ(progress.tokens.size(), 2u);
}

TEST_F(JobTest, WithoutTheWishThereAreNoLogProbabilitiesOfThePrompt) {
  Job job = MakeJob();

  EXPECT_EQ(job.num_prompt_logprobs(), 0);
  EXPECT_TRUE(job.Advance(Tokens("a")).prompt_logprobs.empty());
}

TEST_F(JobTest, LogProbabilitiesOfThePromptComeWithTheFirstTokens) {
  request_->sampling.prompt_logprobs = 0;
  Job job = MakeJob();
  EXPECT_EQ(job.num_prompt_logprobs(), 3);
  job.AddPromptLogprobs(0, Tokens("q"));
  EXPECT_EQ(job.known_prompt_logprobs(), 1);
  // A chunk that ends nothing, and the same again in other pieces.
  EXPECT_TRUE(job.Advance({}).prompt_logprobs.empty());
  job.AddPromptLogprobs(0, Tokens("qr"));
  job.AddPromptLogprobs(0, Tokens("q"));
  job.AddPromptLogprobs(1, Tokens("rs"));
  EXPECT_EQ(job.known_prompt_logprobs(), 3);

  EXPECT_EQ(job.Advance(Tokens("a")).prompt_logprobs, Tokens("qrs"));
  job.AddPromptLogprobs(0, Tokens("qrs"));
  EXPECT_TRUE(job.Advance(Tokens("b")).prompt_logprobs.empty());
}

}  // namespace
}  // namespace bole
