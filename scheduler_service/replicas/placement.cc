#include "scheduler_service/replicas/placement.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "common/check.h"

namespace bole {
namespace {

ProposalTree LoneRoot(int32_t token) {
  return {.parent = {kNoParent}, .token = {token}, .log_rho = {0}};
}

}  // namespace

Placement::Placement(Job& job, SlotLease slot, PageLease pages)
    : job_(job), slot_(std::move(slot)), pages_(std::move(pages)) {}

int Placement::prefill_left() const {
  return std::max(job_.prefill_target() - committed_, 0);
}

PrefillPlan Placement::Chunk(int count) const {
  BOLE_CHECK(count > 0 && count <= prefill_left());
  const std::span<const int32_t> tokens = job_.tokens();
  const int end = committed_ + count;
  PrefillPlan chunk{
      .sequence = Plan(),
      .tokens = {tokens.begin() + committed_, tokens.begin() + end}};
  if (end < std::ssize(tokens)) chunk.next_token = tokens[end];
  const int known = job_.known_prompt_logprobs();
  if (known < std::min(end, job_.num_prompt_logprobs())) {
    chunk.prompt_logprobs = job_.request().sampling.prompt_logprobs;
  }
  return chunk;
}

SequencePlan Placement::Plan() const {
  const Request& request = job_.request();
  return {.slot = slot_.id(),
          .committed = committed_,
          .pages = pages_.ids(),
          .sampling = request.sampling,
          .stop_tokens = request.stop_tokens,
          .prompt_length = job_.prompt_length(),
          .max_new_tokens = job_.max_new_tokens()};
}

ProposalTree Placement::TakeTree() {
  const int32_t root = tree_.token[0];
  return std::exchange(tree_, LoneRoot(root));
}

std::vector<int32_t> Placement::DraftTail() const {
  const std::span<const int32_t> tokens = job_.tokens();
  const auto tail = tokens.first(committed_ + 1).last(num_undrafted_);
  return {tail.begin(), tail.end()};
}

void Placement::Unfollow() {
  is_followed_ = false;
  num_undrafted_ = 0;
}

Job::Progress Placement::Advance(SequenceResult result, bool deferred) {
  // The drafter sees the chunks of prompts in any case.
  if (deferred && is_followed_ && !in_prefill()) {
    num_undrafted_ += result.committed - committed_;
  }
  if (!result.prompt_logprobs.empty()) {
    job_.AddPromptLogprobs(committed_, std::move(result.prompt_logprobs));
  }
  committed_ = result.committed;
  has_emitted_ = has_emitted_ || !result.emitted.empty();
  Job::Progress progress = job_.Advance(std::move(result.emitted));
  if (progress.end) return progress;
  if (result.proposal) {
    tree_ = *std::move(result.proposal);
  } else if (!in_prefill()) {
    tree_ = LoneRoot(job_.tokens().back());
  }
  return progress;
}

bool Placement::lacks_prompt_logprobs() const {
  return job_.known_prompt_logprobs() <
         std::min(committed_, job_.num_prompt_logprobs());
}

void Placement::AddReferences(MemoryReferences& references) const {
  references.slots.push_back(slot_.id());
  const std::vector<PageId>& ids = pages_.ids();
  references.pages.insert(references.pages.end(), ids.begin(), ids.end());
}

}  // namespace bole
