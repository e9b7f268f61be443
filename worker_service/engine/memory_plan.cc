#include "worker_service/engine/memory_plan.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace bole {
namespace {

std::string MiB(size_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

std::string ToString(const MemoryPlan& plan) {
  std::string text = absl::StrCat(
      "weights ", MiB(plan.weights), ", states ", MiB(plan.states), " (",
      plan.num_slots, " slots and ", plan.num_checkpoints,
      " for checkpoints), KV pages ", MiB(plan.kv_pages), " (", plan.num_pages,
      " of ", plan.page_size, " tokens), factors ", MiB(plan.factors),
      ", logits ", MiB(plan.logits), ", buffers ", MiB(plan.buffers));
  if (plan.scratch > 0) absl::StrAppend(&text, ", scratch ", MiB(plan.scratch));
  if (plan.set_aside > 0) {
    absl::StrAppend(&text, ", set aside for graphs and code ",
                    MiB(plan.set_aside));
  }
  absl::StrAppend(&text, ", total ", MiB(plan.total()));
  if (plan.device > 0) {
    absl::StrAppend(&text, " of ", MiB(plan.usable), " usable and ",
                    MiB(plan.device), " in all");
  }
  if (plan.host_cache > 0) {
    absl::StrAppend(&text, "; on the host, pinned ", MiB(plan.host_cache), " (",
                    plan.num_host_slots, " states and ", plan.num_host_pages,
                    " pages)");
  }
  return text;
}

}  // namespace bole
