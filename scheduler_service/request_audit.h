// Checks the consistency of a scheduler's requests.
#ifndef BOLE_SCHEDULER_SERVICE_REQUEST_AUDIT_H_
#define BOLE_SCHEDULER_SERVICE_REQUEST_AUDIT_H_

#include <cstddef>
#include <span>
#include <string>

#include "scheduler_service/served_model.h"
#include "scheduler_service/watch/scheduler_status.h"

namespace bole {

// Says what is wrong; empty if nothing is. It checks that the workers in
// `status` are consistent, that each of `num_jobs` jobs waits or runs by the
// counts in `status`, and that no model with something to run is idle.
std::string AuditRequests(size_t num_jobs, std::span<const ServedModel> models,
                          const SchedulerStatus& status);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REQUEST_AUDIT_H_
