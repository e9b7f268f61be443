#include "worker_service/engine/engine_options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {
namespace {

absl::Status AtLeast(int least, const char* field, int value) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, ", not at least ", least));
}

absl::Status AtLeastOne(const char* field, int value) {
  return AtLeast(1, field, value);
}

absl::Status FromOneTo(int most, const char* field, int value) {
  if (value >= 1 && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, ", not in [1, ", most, "]"));
}

}  // namespace

absl::Status Validate(const EngineOptions& options, const ModelConfig& config) {
  BOLE_RETURN_IF_ERROR(AtLeastOne("max_requests", options.max_requests));
  BOLE_RETURN_IF_ERROR(
      AtLeast(kPrefillGrid, "max_prefill_tokens", options.max_prefill_tokens));
  BOLE_RETURN_IF_ERROR(AtLeastOne("num_slots", options.num_slots));
  BOLE_RETURN_IF_ERROR(AtLeast(0, "num_checkpoints", options.num_checkpoints));
  BOLE_RETURN_IF_ERROR(AtLeastOne("num_pages", options.num_pages));
  BOLE_RETURN_IF_ERROR(AtLeast(0, "num_host_slots", options.num_host_slots));
  BOLE_RETURN_IF_ERROR(AtLeast(0, "num_host_pages", options.num_host_pages));
  BOLE_RETURN_IF_ERROR(AtLeastOne("page_size", options.page_size));
  BOLE_RETURN_IF_ERROR(AtLeastOne("max_context", options.max_context));
  BOLE_RETURN_IF_ERROR(AtLeastOne("draft depth", options.max_draft.depth));
  BOLE_RETURN_IF_ERROR(AtLeastOne("draft top-k", options.max_draft.top_k));
  BOLE_RETURN_IF_ERROR(
      FromOneTo(kMaxLeaseRounds, "max_lease_rounds", options.max_lease_rounds));
  if (options.max_context > config.max_context()) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_context is ", options.max_context, ", the model has ",
                     config.max_context(), " positions"));
  }
  if (options.max_nodes < options.max_requests) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_nodes is ", options.max_nodes,
        ", less than one for each of max_requests = ", options.max_requests));
  }
  BOLE_RETURN_IF_ERROR(
      FromOneTo(128, "max_nodes_per_tree", options.max_nodes_per_tree));
  if (options.max_draft.top_k > kMaxDraftTopK ||
      options.max_draft.depth > kMaxDraftDepth) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a draft of top-k ", options.max_draft.top_k, " and depth ",
        options.max_draft.depth, " is more than top-k ", kMaxDraftTopK,
        " and depth ", kMaxDraftDepth));
  }
  if (options.num_valid_tokens == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "which of the model's ", config.vocab_size,
        " ids are tokens is unknown, and padding must not be drawn: the "
        "checkpoint needs its tokenizer.json, or else its vocab.json or the "
        "added_tokens_decoder of its tokenizer_config.json"));
  }
  if (options.num_valid_tokens < 1 ||
      options.num_valid_tokens > config.vocab_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tokenizer has ", options.num_valid_tokens,
                     " ids, the model's vocabulary ", config.vocab_size));
  }
  return absl::OkStatus();
}

int EngineOptions::MaxDraftRows() const {
  return std::max(
      {max_nodes, max_prefill_tokens, max_requests * max_draft.top_k});
}

StepLimits LimitsOf(const EngineOptions& options, const ModelConfig& config) {
  return {.max_requests = options.max_requests,
          .max_nodes = options.max_nodes,
          .max_nodes_per_tree = options.max_nodes_per_tree,
          .max_prefill_tokens = options.max_prefill_tokens,
          .max_draft = options.max_draft,
          .num_slots = options.TotalSlots(),
          .num_pages = options.num_pages,
          .num_host_slots = options.num_host_slots,
          .num_host_pages = options.num_host_pages,
          .page_size = options.page_size,
          .max_context = std::min(options.max_context, config.max_context()),
          .vocabulary = config.vocab_size,
          .max_lease_rounds = options.max_lease_rounds};
}

}  // namespace bole
