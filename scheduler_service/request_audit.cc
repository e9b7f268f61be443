#include "scheduler_service/request_audit.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace bole {

std::string AuditRequests(size_t num_jobs, std::span<const ServedModel> models,
                          const SchedulerStatus& status) {
  if (!status.audit.empty()) return status.audit;
  if (static_cast<int>(num_jobs) != status.waiting + status.running) {
    return absl::StrCat(num_jobs, " requests are there, of which ",
                        status.waiting, " wait and ", status.running, " run");
  }
  const bool stalled =
      std::any_of(models.begin(), models.end(),
                  [](const ServedModel& model) { return model.IsStalled(); });
  if (!stalled) return "";
  return absl::StrCat(status.running, " requests run and ", status.waiting,
                      " wait, but no worker has a plan");
}

}  // namespace bole
