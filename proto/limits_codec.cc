// The limits of a worker, over the wire.
#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/step_codec.h"

namespace bole {
namespace {

namespace wire = worker::v1;

// Every limit by itself. Slots and pages cost the scheduler memory; the others
// are bounded so that the sums and products which StepLimits computes fit an
// int.
absl::Status CheckRanges(const wire::StepLimits& message) {
  constexpr int kMax = 1 << 30;
  const struct {
    const char* name;
    int value;
    int max;
  } fields[] = {
      {"max_requests", message.max_requests(), kMaxCodedSequences},
      {"max_nodes", message.max_nodes(), kMax},
      {"max_nodes_per_tree", message.max_nodes_per_tree(), kMaxCodedTreeNodes},
      {"max_prefill_tokens", message.max_prefill_tokens(), kMax},
      {"max_draft.top_k", message.max_draft().top_k(), kMaxDraftTopK},
      {"max_draft.depth", message.max_draft().depth(), kMaxDraftDepth},
      {"num_slots", message.num_slots(), kMaxCodedSlots},
      {"num_pages", message.num_pages(), kMaxCodedPages},
      {"page_size", message.page_size(), 1 << 20},
      {"max_context", message.max_context(), kMax},
      {"vocabulary", message.vocabulary(), kMax},
      {"max_lease_rounds", message.max_lease_rounds(), kMaxLeaseRounds},
  };
  for (const auto& field : fields) {
    if (field.value >= 1 && field.value <= field.max) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("limits: ", field.name, " is ", field.value,
                     ", not in [1, ", field.max, "]"));
  }
  const struct {
    const char* name;
    int value;
    int max;
  } places[] = {
      {"num_host_slots", message.num_host_slots(), kMaxCodedSlots},
      {"num_host_pages", message.num_host_pages(), kMaxCodedPages},
  };
  for (const auto& place : places) {
    if (place.value >= 0 && place.value <= place.max) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("limits: ", place.name, " is ", place.value,
                     ", not in [0, ", place.max, "]"));
  }
  return absl::OkStatus();
}

absl::Status CheckAtLeast(const char* name, int64_t value, int64_t least,
                          const char* why) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "limits: ", name, " is ", value, ", not at least ", least, ", ", why));
}

// Limits that contradict each other, so that some plan could never be made.
absl::Status CheckTogether(const StepLimits& limits) {
  BOLE_RETURN_IF_ERROR(CheckAtLeast("max_nodes", limits.max_nodes,
                                    limits.max_requests,
                                    "a root for each of max_requests"));
  BOLE_RETURN_IF_ERROR(
      CheckAtLeast("max_prefill_tokens", limits.max_prefill_tokens,
                   std::min(kPrefillGrid, limits.max_context),
                   "the distance of the places where a prefill may be cut"));
  constexpr int kShortestText = 2;  // A prompt of one token, and its answer.
  BOLE_RETURN_IF_ERROR(CheckAtLeast("max_context", limits.max_context,
                                    kShortestText,
                                    "a token of the prompt and a new one"));
  return CheckAtLeast("num_pages * page_size",
                      int64_t{limits.num_pages} * limits.page_size,
                      limits.KvRows(kShortestText, 0, limits.max_draft),
                      "two tokens and the drafter's rows");
}

}  // namespace

void EncodeLimits(const StepLimits& limits, wire::StepLimits& message) {
  message.Clear();
  message.set_max_requests(limits.max_requests);
  message.set_max_nodes(limits.max_nodes);
  message.set_max_nodes_per_tree(limits.max_nodes_per_tree);
  message.set_max_prefill_tokens(limits.max_prefill_tokens);
  message.mutable_max_draft()->set_top_k(limits.max_draft.top_k);
  message.mutable_max_draft()->set_depth(limits.max_draft.depth);
  message.set_num_slots(limits.num_slots);
  message.set_num_pages(limits.num_pages);
  message.set_page_size(limits.page_size);
  message.set_max_context(limits.max_context);
  message.set_vocabulary(limits.vocabulary);
  message.set_max_lease_rounds(limits.max_lease_rounds);
  message.set_num_host_slots(limits.num_host_slots);
  message.set_num_host_pages(limits.num_host_pages);
}

absl::StatusOr<StepLimits> DecodeLimits(const wire::StepLimits& message) {
  BOLE_RETURN_IF_ERROR(CheckRanges(message));
  const StepLimits limits{.max_requests = message.max_requests(),
                          .max_nodes = message.max_nodes(),
                          .max_nodes_per_tree = message.max_nodes_per_tree(),
                          .max_prefill_tokens = message.max_prefill_tokens(),
                          .max_draft = {.top_k = message.max_draft().top_k(),
                                        .depth = message.max_draft().depth()},
                          .num_slots = message.num_slots(),
                          .num_pages = message.num_pages(),
                          .num_host_slots = message.num_host_slots(),
                          .num_host_pages = message.num_host_pages(),
                          .page_size = message.page_size(),
                          .max_context = message.max_context(),
                          .vocabulary = message.vocabulary(),
                          .max_lease_rounds = message.max_lease_rounds()};
  BOLE_RETURN_IF_ERROR(CheckTogether(limits));
  return limits;
}

}  // namespace bole
