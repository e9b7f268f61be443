// The limits of a worker, over the wire.
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/step_codec.h"

namespace bole {

namespace wire = worker::v1;

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
}

absl::StatusOr<StepLimits> DecodeLimits(const wire::StepLimits& message) {
  // So that sums and the products that StepLimits computes fit an int.
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
      {"num_slots", message.num_slots(), kMax},
      {"num_pages", message.num_pages(), kMax},
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
  return StepLimits{.max_requests = message.max_requests(),
                    .max_nodes = message.max_nodes(),
                    .max_nodes_per_tree = message.max_nodes_per_tree(),
                    .max_prefill_tokens = message.max_prefill_tokens(),
                    .max_draft = {.top_k = message.max_draft().top_k(),
                                  .depth = message.max_draft().depth()},
                    .num_slots = message.num_slots(),
                    .num_pages = message.num_pages(),
                    .page_size = message.page_size(),
                    .max_context = message.max_context(),
                    .vocabulary = message.vocabulary(),
                    .max_lease_rounds = message.max_lease_rounds()};
}

}  // namespace bole
