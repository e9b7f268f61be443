#include "proto/step_codec.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "google/protobuf/repeated_field.h"

namespace bole {
namespace {

namespace wire = worker::v1;

template <typename Repeated, typename T>
void EncodeArray(const std::vector<T>& values, Repeated* array) {
  array->Add(values.begin(), values.end());
}

template <typename Repeated>
auto DecodeArray(const Repeated& array) {
  return std::vector<typename Repeated::value_type>(array.begin(), array.end());
}

absl::Status Error(const std::string& who, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(who, ": ", what));
}

absl::Status CheckAtMost(const std::string& who, const char* what,
                         int64_t count, int64_t limit) {
  if (count <= limit) return absl::OkStatus();
  return Error(who, absl::StrCat(count, " ", what, "; the limit is ", limit));
}

absl::Status CheckSameLength(const std::string& who, const char* a, int size_a,
                             const char* b, int size_b) {
  if (size_a == size_b) return absl::OkStatus();
  return Error(
      who, absl::StrCat(a, " has ", size_a, " values, ", b, " has ", size_b));
}

absl::Status CheckInRange(const std::string& who, const char* field,
                          int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Error(who, absl::StrCat(field, " is ", value, ", not in [", low, ", ",
                                 high, "]"));
}

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

void EncodeForest(const PackedForest& forest, wire::Forest& message) {
  if (forest.num_requests() == 0) return;
  EncodeArray(forest.first_node, message.mutable_first_node());
  EncodeArray(forest.parent, message.mutable_parent());
  EncodeArray(forest.token, message.mutable_token());
}

// first_node ascends from 0 to N in steps that a tree may have.
absl::Status CheckFirstNodes(const wire::Forest& message) {
  const int num_nodes = message.parent_size();
  BOLE_RETURN_IF_ERROR(CheckAtMost("forest", "first nodes",
                                   message.first_node_size(),
                                   kMaxCodedSequences + 1));
  int32_t end = 0;
  for (int b = 0; b < message.first_node_size(); ++b) {
    const int32_t first = message.first_node(b);
    if (first < end || first > num_nodes || (b == 0 && first != 0)) {
      return Error("forest",
                   absl::StrCat("first_node[", b, "] is ", first, " after ",
                                end, " and with ", num_nodes, " nodes"));
    }
    BOLE_RETURN_IF_ERROR(CheckAtMost(absl::StrCat("forest: request ", b - 1),
                                     "nodes", first - end, kMaxCodedTreeNodes));
    end = first;
  }
  if (end == num_nodes) return absl::OkStatus();
  return Error("forest", absl::StrCat("first_node ends at ", end, " with ",
                                      num_nodes, " nodes"));
}

absl::StatusOr<PackedForest> DecodeForest(const wire::Forest& message) {
  BOLE_RETURN_IF_ERROR(CheckSameLength("forest", "parent",
                                       message.parent_size(), "token",
                                       message.token_size()));
  BOLE_RETURN_IF_ERROR(CheckFirstNodes(message));
  std::vector<NodeList> requests;
  requests.reserve(message.first_node_size());
  for (int b = 0; b + 1 < message.first_node_size(); ++b) {
    const int32_t first = message.first_node(b);
    const int32_t end = message.first_node(b + 1);
    requests.push_back({.token = {message.token().begin() + first,
                                  message.token().begin() + end},
                        .parent = {message.parent().begin() + first,
                                   message.parent().begin() + end}});
  }
  return BuildForest(requests);
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

void EncodeToken(const EmittedToken& token, wire::EmittedToken& message) {
  message.set_token(token.token);
  message.set_logprob(token.logprob);
  for (const TokenLogprob& top : token.top) {
    message.add_top_token(top.token);
    message.add_top_logprob(top.logprob);
  }
}

absl::StatusOr<EmittedToken> DecodeToken(const wire::EmittedToken& message,
                                         const std::string& who) {
  BOLE_RETURN_IF_ERROR(
      CheckInRange(who, "token", message.token(), 0, INT32_MAX));
  BOLE_RETURN_IF_ERROR(CheckSameLength(who, "top_token",
                                       message.top_token_size(), "top_logprob",
                                       message.top_logprob_size()));
  EmittedToken token{
      .token = message.token(), .logprob = message.logprob(), .top = {}};
  token.top.reserve(message.top_token_size());
  for (int i = 0; i < message.top_token_size(); ++i) {
    BOLE_RETURN_IF_ERROR(
        CheckInRange(who, "top_token", message.top_token(i), 0, INT32_MAX));
    token.top.push_back({message.top_token(i), message.top_logprob(i)});
  }
  return token;
}

void EncodeTree(const ProposalTree& tree, wire::ProposalTree& message) {
  EncodeArray(tree.parent, message.mutable_parent());
  EncodeArray(tree.token, message.mutable_token());
  EncodeArray(tree.log_rho, message.mutable_log_rho());
}

absl::StatusOr<ProposalTree> DecodeTree(const wire::ProposalTree& message,
                                        const std::string& who) {
  ProposalTree tree{.parent = DecodeArray(message.parent()),
                    .token = DecodeArray(message.token()),
                    .log_rho = DecodeArray(message.log_rho())};
  const absl::Status status = Validate(tree);
  if (!status.ok()) return Error(who, std::string(status.message()));
  return tree;
}

template <typename Messages>
void EncodeTokens(const std::vector<EmittedToken>& tokens, Messages& messages) {
  messages.Reserve(static_cast<int>(tokens.size()));
  for (const EmittedToken& token : tokens) EncodeToken(token, *messages.Add());
}

template <typename Messages>
absl::StatusOr<std::vector<EmittedToken>> DecodeTokens(const Messages& messages,
                                                       const std::string& who) {
  std::vector<EmittedToken> tokens;
  tokens.reserve(messages.size());
  for (const wire::EmittedToken& message : messages) {
    BOLE_ASSIGN_OR_RETURN(EmittedToken token, DecodeToken(message, who));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

void EncodeSequenceResult(const SequenceResult& result,
                          wire::SequenceResult& message) {
  message.set_committed(result.committed);
  EncodeTokens(result.emitted, *message.mutable_emitted());
  message.set_accepted_drafts(result.accepted_drafts);
  if (result.proposal) {
    EncodeTree(*result.proposal, *message.mutable_proposal());
  }
  if (result.bad_logits_position) {
    message.set_bad_logits_position(*result.bad_logits_position);
  }
  EncodeTokens(result.prompt_logprobs, *message.mutable_prompt_logprobs());
}

absl::StatusOr<SequenceResult> DecodeSequenceResult(
    const wire::SequenceResult& message, const std::string& who) {
  BOLE_RETURN_IF_ERROR(
      CheckInRange(who, "committed", message.committed(), 0, INT32_MAX));
  BOLE_RETURN_IF_ERROR(CheckInRange(who, "accepted_drafts",
                                    message.accepted_drafts(), 0,
                                    message.emitted_size()));
  SequenceResult result{.committed = message.committed(),
                        .emitted = {},
                        .accepted_drafts = message.accepted_drafts(),
                        .proposal = std::nullopt};
  BOLE_ASSIGN_OR_RETURN(result.emitted, DecodeTokens(message.emitted(), who));
  BOLE_ASSIGN_OR_RETURN(result.prompt_logprobs,
                        DecodeTokens(message.prompt_logprobs(), who));
  if (message.has_proposal()) {
    BOLE_ASSIGN_OR_RETURN(result.proposal, DecodeTree(message.proposal(), who));
  }
  if (message.has_bad_logits_position()) {
    BOLE_RETURN_IF_ERROR(CheckInRange(who, "bad_logits_position",
                                      message.bad_logits_position(), 0,
                                      INT32_MAX));
    result.bad_logits_position = message.bad_logits_position();
  }
  return result;
}

// Decodes every message of an array with `decode(message, name of it)`.
template <typename Value, typename Message, typename Decode>
absl::StatusOr<std::vector<Value>> DecodeAll(
    const google::protobuf::RepeatedPtrField<Message>& messages,
    const char* name, Decode decode) {
  BOLE_RETURN_IF_ERROR(
      CheckAtMost(name, "of them", messages.size(), kMaxCodedSequences));
  std::vector<Value> values;
  values.reserve(messages.size());
  for (int i = 0; i < messages.size(); ++i) {
    BOLE_ASSIGN_OR_RETURN(Value value,
                          decode(messages[i], absl::StrCat(name, " ", i)));
    values.push_back(std::move(value));
  }
  return values;
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
  return plan;
}

void EncodeResult(const StepResult& result, wire::StepResult& message) {
  message.Clear();
  for (const SequenceResult& prefill : result.prefills) {
    EncodeSequenceResult(prefill, *message.add_prefills());
  }
  for (const SequenceResult& sequence : result.sequences) {
    EncodeSequenceResult(sequence, *message.add_sequences());
  }
  message.set_round(result.round);
  message.set_more_rounds(!result.is_last);
  if (result.forest) EncodeForest(*result.forest, *message.mutable_forest());
}

absl::StatusOr<StepResult> DecodeResult(const wire::StepResult& message) {
  StepResult result;
  BOLE_ASSIGN_OR_RETURN(result.prefills,
                        DecodeAll<SequenceResult>(message.prefills(), "prefill",
                                                  DecodeSequenceResult));
  BOLE_ASSIGN_OR_RETURN(result.sequences, DecodeAll<SequenceResult>(
                                              message.sequences(), "sequence",
                                              DecodeSequenceResult));
  BOLE_RETURN_IF_ERROR(
      CheckInRange("result", "round", message.round(), 0, kMaxLeaseRounds - 1));
  result.round = message.round();
  result.is_last = !message.more_rounds();
  if (message.has_forest()) {
    BOLE_ASSIGN_OR_RETURN(result.forest, DecodeForest(message.forest()));
  }
  return result;
}

}  // namespace bole
