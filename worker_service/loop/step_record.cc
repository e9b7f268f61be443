#include "worker_service/loop/step_record.h"

#include <iterator>
#include <vector>

namespace bole {
namespace {

constexpr const char* kOutcomes[] = {"running", "done", "refused", "failed"};

constexpr int kMicro = 6;
constexpr int kNano = 9;

constexpr FlightField kFields[] = {
    {.name = "at", .decimals = kMicro},
    {.name = "stream"},
    {.name = "plan"},
    {.name = "round"},
    {.name = "outcome", .names = kOutcomes},
    {.name = "queue_seconds", .decimals = kNano},
    {.name = "validate_seconds", .decimals = kNano},
    {.name = "engine_seconds", .decimals = kNano},
    {.name = "waiting"},
    {.name = "prefills"},
    {.name = "prefill_tokens"},
    {.name = "sequences"},
    {.name = "nodes"},
    {.name = "kv_tokens"},
    {.name = "draft_top_k"},
    {.name = "draft_depth"},
    {.name = "defers_draft"},
    {.name = "lease_rounds"},
    {.name = "lease_budget"},
    {.name = "slot_copies"},
    {.name = "page_copies"},
    {.name = "host_copies"},
    {.name = "emitted"},
    {.name = "accepted"},
    {.name = "bad_logits"},
};
static_assert(sizeof(StepRecord) == std::size(kFields) * sizeof(int64_t));

int64_t SizeOf(const MemoryCopies& copies) {
  return static_cast<int64_t>(copies.slots.size() + copies.pages.size());
}

}  // namespace

std::span<const FlightField> StepFields() { return kFields; }

StepRecord RecordOf(const StepPlan& plan) {
  StepRecord record{
      .prefills = static_cast<int64_t>(plan.prefills.size()),
      .sequences = static_cast<int64_t>(plan.sequences.size()),
      .nodes = plan.forest.num_nodes(),
      .defers_draft = plan.defers_draft ? 1 : 0,
      .slot_copies = static_cast<int64_t>(plan.copies.slots.size()),
      .page_copies = static_cast<int64_t>(plan.copies.pages.size()),
      .host_copies = SizeOf(plan.to_host) + SizeOf(plan.from_host)};
  for (const PrefillPlan& chunk : plan.prefills) {
    record.prefill_tokens += static_cast<int64_t>(chunk.tokens.size());
    record.kv_tokens += chunk.sequence.committed;
  }
  for (const SequencePlan& sequence : plan.sequences) {
    record.kv_tokens += sequence.committed;
  }
  if (plan.draft) {
    record.draft_top_k = plan.draft->top_k;
    record.draft_depth = plan.draft->depth;
  }
  if (plan.lease) {
    record.lease_rounds = plan.lease->rounds;
    record.lease_budget = plan.lease->budget;
  }
  return record;
}

void AddResult(const StepResult& result, StepRecord& record) {
  record.round = result.round;
  if (result.forest) record.nodes = result.forest->num_nodes();
  for (const auto* sequences : {&result.prefills, &result.sequences}) {
    for (const SequenceResult& of : *sequences) {
      record.emitted += static_cast<int64_t>(of.emitted.size());
      record.accepted += of.accepted_drafts;
      record.bad_logits += of.bad_logits_position ? 1 : 0;
    }
  }
}

}  // namespace bole
