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

// A request with its tokens and text so far. It does not know its worker: where
// it runs is a Placement, and everything that a worker knows of it can be
// rebuilt from its tokens. So a job that lost its place is prefilled again
// elsewhere, prompt and output, and continues with the same tokens, because the
// sampling noise depends only on seed and position.
//
// Owned by the scheduler, and used by its thread only.
class Job {
 public:
  // REQUIRES: the request has its number and its stream.
  Job(std::unique_ptr<Request> request, const Tokenizer& tokenizer);

  JobId id() const { return *request_->job; }
  const Request& request() const { return *request_; }

  std::span<const int32_t> tokens() const { return tokens_; }  // With output.
  int prompt_length() const;
  int num_output() const;
  int max_new_tokens() const;  // Still allowed; 0 once it has ended.
  // Tokens that a worker has to know before a tree can be verified: all but the
  // pending one, the last of the output.
  int prefill_target() const;

  // The number of log probabilities of the prompt that the client is to get,
  // for all its tokens but the first; and how many of them, from the first on,
  // the job was given so far.
  int num_prompt_logprobs() const;
  int known_prompt_logprobs() const { return known_prompt_logprobs_; }
  // Adds those from index `first` on. It may have some of them already, because
  // a job that lost its place is prefilled again.
  // REQUIRES: first <= known_prompt_logprobs(); none beyond the prompt.
  void AddPromptLogprobs(int first, std::vector<EmittedToken> tokens);

  // The effect of a round: new text for the client, and whether the job ended.
  struct Progress {
    std::vector<EmittedToken> tokens;  // Up to where it stopped.
    std::string text;
    // Returned with the first tokens after they were added.
    std::vector<EmittedToken> prompt_logprobs;
    std::optional<MatchedStop> end;  // Set: it ended, in this way.
  };
  Progress Advance(std::vector<EmittedToken> emitted);
  // A verification of one of its trees.
  struct Round {
    int nodes = 1;
    bool is_chain = true;
    // Drafts that were expected to be accepted, by the drafter's probabilities.
    double promised_drafts = 0;
    int accepted_drafts = 0;
    // Why nothing was drafted, if the tree was a lone root.
    OffReason off_reason = OffReason::kNone;
  };
  void CountRound(const Round& round);

  // The report of a job that ended successfully at `now`.
  // REQUIRES: first_run and first_token are set.
  Completion CompletionAt(TimePoint now, MatchedStop matched) const;

  // Tokens that were cached when it was first placed.
  int cached_tokens = 0;
  // How often its drafts are accepted, on whatever worker.
  RequestAcceptance acceptance;
  // The workers that were lost while they ran a round of it, since its last
  // token.
  int losses = 0;
  // A worker refused the last plan that it was part of.
  bool was_refused = false;
  // It may have caused the failures of others, so it is to run alone.
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
  std::vector<EmittedToken> prompt_logprobs_;  // Not yet returned.
  SpeculationSummary speculation_;
  std::array<int, kNumOffReasons> off_reasons_{};
};

// Orders jobs by arrival, the earliest first.
struct ByArrival {
  bool operator()(const Job& a, const Job& b) const {
    const TimePoint first = a.request().arrival;
    const TimePoint second = b.request().arrival;
    return first != second ? first < second : a.id() < b.id();
  }
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_JOBS_JOB_H_
