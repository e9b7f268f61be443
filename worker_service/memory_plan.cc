#include "worker_service/memory_plan.h"

#include "absl/strings/str_format.h"

namespace bole {

std::string ToString(const MemoryPlan& plan) {
  constexpr double kMiB = 1 << 20;
  const auto mib = [](size_t bytes) {
    return static_cast<double>(bytes) / kMiB;
  };
  return absl::StrFormat(
      "weights %.1f MiB, states %.1f MiB, KV pages %.1f MiB, buffers %.1f MiB, "
      "total %.1f MiB",
      mib(plan.weights), mib(plan.states), mib(plan.kv_pages),
      mib(plan.buffers), mib(plan.total()));
}

}  // namespace bole
