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

void Placement::StartFrom(PrefixCache::Hit hit, PageLease pages, bool follows) {
  BOLE_CHECK(!has_run_ && committed_ == 0);
  pages_ = std::move(pages);
  committed_ = hit.from.position;
  last_checkpoint_ = committed_;
  if (follows && hit.from.has_drafter) {
    num_undrafted_ = hit.num_undrafted();
  } else {
    Unfollow();
  }
  if (!in_prefill()) tree_ = LoneRoot(job_.tokens().back());
  start_ = std::move(hit);
}

void Placement::AddCopies(StepPlan& plan) const {
  if (start_.from.position == 0) return;
  MemoryCopies& copies = start_.on_host ? plan.from_host : plan.copies;
  copies.slots.push_back(
      {.from = start_.slot->id(),
       .to = slot_.id(),
       .output_to_prompt = start_.from.position <= job_.prompt_length()});
  const std::vector<PageId>& from = start_.pages->ids();
  for (size_t i = start_.first_written; i < from.size(); ++i) {
    copies.pages.push_back({.from = from[i], .to = pages_.ids()[i]});
  }
}

int Placement::prefill_until_cut() const {
  const int left = prefill_left();
  return cuts_.empty() ? left : std::min(left, cuts_[0] - committed_);
}

bool Placement::PassCut() {
  if (cuts_.empty() || committed_ < cuts_[0]) return false;
  const bool at_cut = committed_ == cuts_[0];
  cuts_.erase(cuts_.begin());
  return at_cut;
}

void Placement::Unfollow() {
  is_followed_ = false;
  num_undrafted_ = 0;
}

CheckpointFacts Placement::Facts() const {
  // More tokens may be committed than the job has, if it ended within the
  // tokens that a round emitted.
  const bool is_known = has_run_ && committed_ <= std::ssize(job_.tokens());
  if (!is_known) return {};
  return {.position = committed_,
          .prompt_length = job_.prompt_length(),
          .num_undrafted = num_undrafted_,
          .has_drafter = is_followed_};
}

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
  if (num_undrafted_ > 0) chunk.sequence.draft_tail = DraftTail();
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

Job::Progress Placement::Advance(SequenceResult result, bool deferred) {
  // A prefill chunk is always shown to the drafter, and the tail before it.
  if (in_prefill()) {
    num_undrafted_ = 0;
  } else if (deferred && is_followed_) {
    num_undrafted_ += result.committed - committed_;
  }
  has_run_ = true;
  start_ = {};
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

void Placement::AddReferences(MemoryReferences& references,
                              MemoryReferences& on_host) const {
  const auto append = [](const PageLease& pages, MemoryReferences& to) {
    to.pages.insert(to.pages.end(), pages.ids().begin(), pages.ids().end());
  };
  references.slots.push_back(slot_.id());
  append(pages_, references);
  if (start_.pages) {
    append(*start_.pages, start_.on_host ? on_host : references);
  }
}

}  // namespace bole
