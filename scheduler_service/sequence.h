// The progress of one request.
#ifndef BOLE_SCHEDULER_SERVICE_SEQUENCE_H_
#define BOLE_SCHEDULER_SERVICE_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/proposal_tree.h"
#include "common/step.h"
#include "common/tokenizer/tokenizer.h"
#include "scheduler_service/output_text.h"
#include "scheduler_service/request.h"

namespace bole {

// A request's tokens, how many of them a worker knows, and what it holds there.
//
// Everything that a worker knows can be rebuilt from the tokens: a sequence
// that lost its place is prefilled again, prompt and output, and goes on with
// the same tokens, for noise depends on seed and position alone.
//
// Owned by the scheduler; its thread alone.
class Sequence {
 public:
  Sequence(std::unique_ptr<Request> request, const Tokenizer& tokenizer);

  const Request& request() const { return *request_; }
  int prompt_length() const;
  int num_output() const;
  int max_new_tokens() const;  // Still allowed; 0 once it has ended.

  // Tokens that a worker has to know before a tree can be verified: all but the
  // pending one, the last of the output.
  int prefill_target() const;
  int committed() const { return committed_; }
  bool in_prefill() const { return committed_ < prefill_target(); }

  // The next `count` tokens of the prefill.
  // REQUIRES: 0 < count <= prefill_target() - committed().
  PrefillPlan Chunk(int count) const;

  // For the forest. REQUIRES: !in_prefill().
  SequencePlan Plan() const;
  const ProposalTree& tree() const { return tree_; }

  // What a round did to it: new text for the client, and whether it ended.
  struct Progress {
    std::vector<EmittedToken> tokens;  // Up to where it stopped.
    std::string text;
    std::optional<MatchedStop> end;  // Set: it ended, and by what.
  };
  Progress Advance(SequenceResult result);

  // The slot and pages that it holds; given and taken by the batch.
  std::optional<SlotId> slot;
  std::vector<PageId> pages;

  // Nothing that a worker knows of it is left.
  // REQUIRES: slot and pages are given back.
  void Restart();
  int restarts_after_loss = 0;  // Workers that were lost under it.

  // For reports.
  int rounds() const { return rounds_; }
  int accepted_drafts() const { return accepted_drafts_; }
  std::optional<TimePoint> first_run;
  std::optional<TimePoint> first_token;
  TimePoint last_token;

 private:
  std::optional<MatchedStop> EndOf(int32_t token) const;

  const std::unique_ptr<Request> request_;
  std::vector<int32_t> tokens_;  // Prompt and output.
  int committed_ = 0;
  ProposalTree tree_;  // Root: the pending token.
  OutputText text_;
  int rounds_ = 0;
  int accepted_drafts_ = 0;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_SEQUENCE_H_
