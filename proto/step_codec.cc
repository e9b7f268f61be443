#include "proto/step_codec.h"

#include <cstdint>
#include <string>

#include "common/status_macros.h"
#include "proto/codec_parts.h"

namespace bole {
namespace {

namespace wire = worker::v1;
using codec::CheckAtMost;
using codec::CheckSameLength;
using codec::DecodeAll;
using codec::DecodeArray;
using codec::DecodeForest;
using codec::EncodeArray;
using codec::EncodeForest;
using codec::Error;

void EncodeSampling(const SamplingParams& params, wire::Sampling& message) {
  message.set_temperature(params.temperature);
  message.set_top_k(params.top_k);
  message.set_top_p(params.top_p);
  message.set_min_p(params.min_p);
  message.set_presence_penalty(params.presence_penalty);
  message.set_frequency_penalty(params.frequency_penalty);
  message.set_repetition_penalty(params.repetition_penalty);
  for (const auto& [token, bias] : params.logit_bias) {
    message.add_bias_token(token);
    message.add_bias(bias);
  }
  message.set_seed(params.seed);
  message.set_logprobs(params.logprobs);
  message.set_top_logprobs(params.top_logprobs);
  message.set_min_tokens(params.min_tokens);
}

absl::StatusOr<SamplingParams> DecodeSampling(const wire::Sampling& message,
                                              const std::string& who) {
  BOLE_RETURN_IF_ERROR(CheckSameLength(who, "bias_token",
                                       message.bias_token_size(), "bias",
                                       message.bias_size()));
  SamplingParams params;
  params.temperature = message.temperature();
  params.top_k = message.top_k();
  params.top_p = message.top_p();
  params.min_p = message.min_p();
  params.presence_penalty = message.presence_penalty();
  params.frequency_penalty = message.frequency_penalty();
  params.repetition_penalty = message.repetition_penalty();
  params.logit_bias.reserve(message.bias_size());
  for (int i = 0; i < message.bias_size(); ++i) {
    params.logit_bias.emplace_back(message.bias_token(i), message.bias(i));
  }
  params.seed = message.seed();
  params.logprobs = message.logprobs();
  params.top_logprobs = message.top_logprobs();
  params.min_tokens = message.min_tokens();
  return params;
}

void EncodeSequence(const SequencePlan& sequence, wire::SequencePlan& message) {
  message.set_slot(sequence.slot.value());
  message.set_committed(sequence.committed);
  message.mutable_pages()->Reserve(static_cast<int>(sequence.pages.size()));
  for (const PageId page : sequence.pages) message.add_pages(page.value());
  EncodeSampling(sequence.sampling, *message.mutable_sampling());
  EncodeArray(sequence.stop_tokens, message.mutable_stop_tokens());
  message.set_prompt_length(sequence.prompt_length);
  message.set_max_new_tokens(sequence.max_new_tokens);
  EncodeArray(sequence.draft_tail, message.mutable_draft_tail());
  message.set_skips_drafter(sequence.skips_drafter);
}

absl::StatusOr<SequencePlan> DecodeSequence(const wire::SequencePlan& message,
                                            const std::string& who) {
  if (!message.has_sampling()) return Error(who, "has no sampling");
  SequencePlan sequence{
      .slot = SlotId(message.slot()),
      .committed = message.committed(),
      .stop_tokens = DecodeArray(message.stop_tokens()),
      .prompt_length = message.prompt_length(),
      .max_new_tokens = message.max_new_tokens(),
      .draft_tail = DecodeArray(message.draft_tail()),
      .skips_drafter = message.skips_drafter(),
  };
  sequence.pages.reserve(message.pages_size());
  for (const int32_t page : message.pages()) sequence.pages.emplace_back(page);
  BOLE_ASSIGN_OR_RETURN(sequence.sampling,
                        DecodeSampling(message.sampling(), who));
  return sequence;
}

void EncodePrefill(const PrefillPlan& prefill, wire::PrefillPlan& message) {
  EncodeSequence(prefill.sequence, *message.mutable_sequence());
  EncodeArray(prefill.tokens, message.mutable_tokens());
  if (prefill.next_token) message.set_next_token(*prefill.next_token);
  if (prefill.prompt_logprobs) {
    message.set_prompt_logprobs(*prefill.prompt_logprobs);
  }
}

absl::StatusOr<PrefillPlan> DecodePrefill(const wire::PrefillPlan& message,
                                          const std::string& who) {
  if (!message.has_sequence()) return Error(who, "has no sequence");
  PrefillPlan prefill{.tokens = DecodeArray(message.tokens())};
  BOLE_ASSIGN_OR_RETURN(prefill.sequence,
                        DecodeSequence(message.sequence(), who));
  if (message.has_next_token()) prefill.next_token = message.next_token();
  if (message.has_prompt_logprobs()) {
    prefill.prompt_logprobs = message.prompt_logprobs();
  }
  return prefill;
}

void EncodeDraft(const DraftShape& shape, wire::DraftShape& message) {
  message.set_top_k(shape.top_k);
  message.set_depth(shape.depth);
}

DraftShape DecodeDraft(const wire::DraftShape& message) {
  return {.top_k = message.top_k(), .depth = message.depth()};
}

void EncodeLease(const Lease& lease, wire::Lease& message) {
  message.set_rounds(lease.rounds);
  message.set_budget(lease.budget);
  message.set_max_nodes_per_tree(lease.max_nodes_per_tree);
  for (const TreeBounds& bounds : lease.bounds) {
    message.add_floor(bounds.floor);
    message.add_cap(bounds.cap);
  }
}

absl::StatusOr<Lease> DecodeLease(const wire::Lease& message) {
  BOLE_RETURN_IF_ERROR(CheckSameLength("lease", "floor", message.floor_size(),
                                       "cap", message.cap_size()));
  BOLE_RETURN_IF_ERROR(
      CheckAtMost("lease", "floors", message.floor_size(), kMaxCodedSequences));
  Lease lease{.rounds = message.rounds(),
              .budget = message.budget(),
              .max_nodes_per_tree = message.max_nodes_per_tree()};
  lease.bounds.reserve(message.floor_size());
  for (int b = 0; b < message.floor_size(); ++b) {
    lease.bounds.push_back({.floor = message.floor(b), .cap = message.cap(b)});
  }
  return lease;
}

void EncodeCopies(const MemoryCopies& copies, wire::MemoryCopies& message) {
  for (const SlotCopy& copy : copies.slots) {
    message.add_from_slot(copy.from.value());
    message.add_to_slot(copy.to.value());
    message.add_output_to_prompt(copy.output_to_prompt);
  }
  for (const PageCopy& copy : copies.pages) {
    message.add_from_page(copy.from.value());
    message.add_to_page(copy.to.value());
  }
}

absl::StatusOr<MemoryCopies> DecodeCopies(const wire::MemoryCopies& message) {
  const int slots = message.from_slot_size();
  const int pages = message.from_page_size();
  BOLE_RETURN_IF_ERROR(CheckSameLength("copies", "from_slot", slots, "to_slot",
                                       message.to_slot_size()));
  BOLE_RETURN_IF_ERROR(CheckSameLength("copies", "from_slot", slots,
                                       "output_to_prompt",
                                       message.output_to_prompt_size()));
  BOLE_RETURN_IF_ERROR(CheckSameLength("copies", "from_page", pages, "to_page",
                                       message.to_page_size()));
  MemoryCopies copies;
  copies.slots.reserve(slots);
  for (int i = 0; i < slots; ++i) {
    copies.slots.push_back({.from = SlotId(message.from_slot(i)),
                            .to = SlotId(message.to_slot(i)),
                            .output_to_prompt = message.output_to_prompt(i)});
  }
  copies.pages.reserve(pages);
  for (int i = 0; i < pages; ++i) {
    copies.pages.push_back({.from = PageId(message.from_page(i)),
                            .to = PageId(message.to_page(i))});
  }
  return copies;
}

}  // namespace

void EncodePlan(const StepPlan& plan, wire::StepPlan& message) {
  message.Clear();
  for (const PrefillPlan& prefill : plan.prefills) {
    EncodePrefill(prefill, *message.add_prefills());
  }
  for (const SequencePlan& sequence : plan.sequences) {
    EncodeSequence(sequence, *message.add_sequences());
  }
  EncodeForest(plan.forest, *message.mutable_forest());
  if (plan.draft) EncodeDraft(*plan.draft, *message.mutable_draft());
  message.set_defers_draft(plan.defers_draft);
  if (plan.lease) EncodeLease(*plan.lease, *message.mutable_lease());
  if (!plan.copies.empty()) {
    EncodeCopies(plan.copies, *message.mutable_copies());
  }
  if (!plan.to_host.empty()) {
    EncodeCopies(plan.to_host, *message.mutable_to_host());
  }
  if (!plan.from_host.empty()) {
    EncodeCopies(plan.from_host, *message.mutable_from_host());
  }
}

absl::StatusOr<StepPlan> DecodePlan(const wire::StepPlan& message) {
  StepPlan plan;
  BOLE_ASSIGN_OR_RETURN(
      plan.prefills,
      DecodeAll<PrefillPlan>(message.prefills(), "prefill", DecodePrefill));
  BOLE_ASSIGN_OR_RETURN(
      plan.sequences,
      DecodeAll<SequencePlan>(message.sequences(), "sequence", DecodeSequence));
  BOLE_ASSIGN_OR_RETURN(plan.forest, DecodeForest(message.forest()));
  if (message.has_draft()) plan.draft = DecodeDraft(message.draft());
  plan.defers_draft = message.defers_draft();
  if (message.has_lease()) {
    BOLE_ASSIGN_OR_RETURN(plan.lease, DecodeLease(message.lease()));
  }
  if (message.has_copies()) {
    BOLE_ASSIGN_OR_RETURN(plan.copies, DecodeCopies(message.copies()));
  }
  if (message.has_to_host()) {
    BOLE_ASSIGN_OR_RETURN(plan.to_host, DecodeCopies(message.to_host()));
  }
  if (message.has_from_host()) {
    BOLE_ASSIGN_OR_RETURN(plan.from_host, DecodeCopies(message.from_host()));
  }
  return plan;
}

}  // namespace bole
