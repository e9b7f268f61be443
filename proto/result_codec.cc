// Results, over the wire and in recordings.
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/status_macros.h"
#include "proto/codec_parts.h"
#include "proto/raw_arrays.h"
#include "proto/step_codec.h"

namespace bole {
namespace {

namespace wire = worker::v1;
using codec::CheckInRange;
using codec::CheckSameLength;
using codec::DecodeAll;
using codec::DecodeArray;
using codec::DecodeForest;
using codec::EncodeArray;
using codec::EncodeForest;
using codec::Error;

// An error of this part of the message.
absl::Status ErrorOf(const std::string& who, const absl::Status& error) {
  return Error(who, std::string(error.message()));
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

absl::StatusOr<ProposalTree> DecodeTree(const wire::ProposalTree& message) {
  ProposalTree tree{.parent = DecodeArray(message.parent()),
                    .token = DecodeArray(message.token()),
                    .log_rho = DecodeArray(message.log_rho())};
  BOLE_RETURN_IF_ERROR(Validate(tree));
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

void EncodeEmitted(const std::vector<EmittedToken>& tokens, ResultForm form,
                   wire::SequenceResult& message) {
  std::string bytes;
  if (form == ResultForm::kRaw && EncodeRawTokens(tokens, bytes)) {
    message.set_raw_emitted(std::move(bytes));
  } else {
    EncodeTokens(tokens, *message.mutable_emitted());
  }
}

absl::StatusOr<std::vector<EmittedToken>> DecodeEmitted(
    const wire::SequenceResult& message, const std::string& who) {
  if (message.raw_emitted().empty()) {
    return DecodeTokens(message.emitted(), who);
  }
  if (message.emitted_size() > 0) return Error(who, "emitted and raw_emitted");
  auto tokens = DecodeRawTokens(message.raw_emitted());
  if (!tokens.ok()) return ErrorOf(who, tokens.status());
  return tokens;
}

void EncodeProposal(const ProposalTree& tree, ResultForm form,
                    wire::SequenceResult& message) {
  std::string bytes;
  if (form == ResultForm::kRaw && EncodeRawTree(tree, bytes)) {
    message.set_raw_proposal(std::move(bytes));
  } else {
    EncodeTree(tree, *message.mutable_proposal());
  }
}

// REQUIRES: one of its two forms is there.
absl::StatusOr<ProposalTree> DecodeProposal(const wire::SequenceResult& message,
                                            const std::string& who) {
  if (message.has_proposal() && message.has_raw_proposal()) {
    return Error(who, "proposal and raw_proposal");
  }
  auto tree = message.has_proposal() ? DecodeTree(message.proposal())
                                     : DecodeRawTree(message.raw_proposal());
  if (!tree.ok()) return ErrorOf(who, tree.status());
  return tree;
}

void EncodeSequenceResult(const SequenceResult& result, ResultForm form,
                          wire::SequenceResult& message) {
  message.set_committed(result.committed);
  EncodeEmitted(result.emitted, form, message);
  message.set_accepted_drafts(result.accepted_drafts);
  if (result.promised_drafts) {
    message.set_promised_drafts(*result.promised_drafts);
  }
  if (result.proposal) EncodeProposal(*result.proposal, form, message);
  if (result.bad_logits_position) {
    message.set_bad_logits_position(*result.bad_logits_position);
  }
  EncodeTokens(result.prompt_logprobs, *message.mutable_prompt_logprobs());
}

absl::StatusOr<SequenceResult> DecodeSequenceResult(
    const wire::SequenceResult& message, const std::string& who) {
  SequenceResult result{.committed = message.committed(),
                        .emitted = {},
                        .accepted_drafts = message.accepted_drafts(),
                        .proposal = std::nullopt};
  BOLE_RETURN_IF_ERROR(
      CheckInRange(who, "committed", result.committed, 0, INT32_MAX));
  BOLE_ASSIGN_OR_RETURN(result.emitted, DecodeEmitted(message, who));
  BOLE_RETURN_IF_ERROR(CheckInRange(who, "accepted_drafts",
                                    result.accepted_drafts, 0,
                                    std::ssize(result.emitted)));
  if (message.has_promised_drafts()) {
    result.promised_drafts = message.promised_drafts();
  }
  BOLE_ASSIGN_OR_RETURN(result.prompt_logprobs,
                        DecodeTokens(message.prompt_logprobs(), who));
  if (message.has_proposal() || message.has_raw_proposal()) {
    BOLE_ASSIGN_OR_RETURN(result.proposal, DecodeProposal(message, who));
  }
  if (message.has_bad_logits_position()) {
    BOLE_RETURN_IF_ERROR(CheckInRange(who, "bad_logits_position",
                                      message.bad_logits_position(), 0,
                                      INT32_MAX));
    result.bad_logits_position = message.bad_logits_position();
  }
  return result;
}

}  // namespace

void EncodeResult(const StepResult& result, wire::StepResult& message,
                  ResultForm form) {
  message.Clear();
  for (const SequenceResult& prefill : result.prefills) {
    EncodeSequenceResult(prefill, form, *message.add_prefills());
  }
  for (const SequenceResult& sequence : result.sequences) {
    EncodeSequenceResult(sequence, form, *message.add_sequences());
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
