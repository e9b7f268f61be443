// One request, from its arrival to its end.
#ifndef BOLE_SCHEDULER_SERVICE_JOBS_JOB_H_
#define BOLE_SCHEDULER_SERVICE_JOBS_JOB_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/step.h"
#include "common/tokenizer/tokenizer.h"
#include "scheduler_service/jobs/output_text.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/jobs/token_stream.h"
#include "scheduler_service/policy/request_acceptance.h"
#include "scheduler_service/policy/round_policy.h"

namespace bole {

// A request with its tokens and text so far. It knows no worker: where it runs
// is a Placement, and everything that a worker knows of it can be rebuilt from
// its tokens. So a job that lost its place is prefilled again elsewhere, prompt
// and output, and goes on with the same tokens, for noise depends on seed and
// position alone.
//
// Owned by the scheduler; its thread alone.
class Job {
 public:
  // REQUIRES: the request has its number and its stream.
  Job(std::unique_ptr<Request> request, const Tokenizer& tokenizer);

  JobId id() const { return *request_->job; }
  const Request& request() const { return *request_; }

  std::span<const int32_t> tokens() const { return tokens_; }  // Output too.
  int prompt_length() const;
  int num_output() const;
  int max_new_tokens() const;  // Still allowed; 0 once it has ended.
  // Tokens that a worker has to know before a tree can be verified: all but the
  // pending one, the last of the output.
  int prefill_target() const;

  // Log probabilities of the prompt that its client is to have, and how many of
  // them it was given: those of the first tokens after the prompt's first.
  int num_prompt_logprobs() const;
  int known_prompt_logprobs() const { return known_prompt_logprobs_; }
  // Takes those from the first-th on, of which it may have some already: a job
  // that lost its place is prefilled again.
  // REQUIRES: first <= known_prompt_logprobs(); none beyond the prompt.
  void AddPromptLogprobs(int first, std::vector<EmittedToken> tokens);

  // What a round did to it: new text for the client, and whether it ended.
  struct Progress {
    std::vector<EmittedToken> tokens;  // Up to where it stopped.
    std::string text;
    // With the first tokens since it was given them.
    std::vector<EmittedToken> prompt_logprobs;
    std::optional<MatchedStop> end;  // Set: it ended, and by what.
  };
  Progress Advance(std::vector<EmittedToken> emitted);
  // A verification of one of its trees.
  struct Round {
    int nodes = 1;
    bool is_chain = true;
    // What the drafter's probabilities said would be accepted.
    double promised_drafts = 0;
    int accepted_drafts = 0;
    // Why nothing was drafted, if the tree was a lone root.
    OffReason off_reason = OffReason::kNone;
  };
  void CountRound(const Round& round);

  // What is told of it when it ended well, at `now`.
  // REQUIRES: first_run and first_token are set.
  Completion CompletionAt(TimePoint now, MatchedStop matched) const;

  // Tokens that it did not have to run when it was placed first.
  int cached_tokens = 0;
  // How far its drafts come true, on whatever worker.
  RequestAcceptance acceptance;
  // Workers that were lost with a round of it on its way, since its last token.
  int losses = 0;
  // A worker refused the last plan that it was part of.
  bool was_refused = false;
  // It may be the cause of what happened to others: it is to run alone.
  bool is_suspect() const { return was_refused || losses >= kSuspectLosses; }
  static constexpr int kSuspectLosses = 2;

  std::optional<TimePoint> first_run;
  std::optional<TimePoint> first_token;
  TimePoint last_token;

 private:
  std::optional<MatchedStop> EndOf(int32_t token) const;

  const std::unique_ptr<const Request> request_;
  std::vector<int32_t> tokens_;  // Prompt and output.
  OutputText text_;
  int known_prompt_logprobs_ = 0;
  std::vector<EmittedToken> prompt_logprobs_;  // Not yet on their way.
  SpeculationSummary speculation_;
  std::array<int, kNumOffReasons> off_reasons_{};
};

// Those that came earlier are before those that came later.
struct ByArrival {
  bool operator()(const Job& a, const Job& b) const {
    const TimePoint first = a.request().arrival;
    const TimePoint second = b.request().arrival;
    return first != second ? first < second : a.id() < b.id();
  }
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_JOBS_JOB_H_
