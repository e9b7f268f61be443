// Whether the requests of a scheduler are where they should be.
#ifndef BOLE_SCHEDULER_SERVICE_REQUEST_AUDIT_H_
#define BOLE_SCHEDULER_SERVICE_REQUEST_AUDIT_H_

#include <cstddef>
#include <span>
#include <string>

#include "scheduler_service/served_model.h"
#include "scheduler_service/watch/scheduler_status.h"

namespace bole {

// What is wrong, or nothing: what `status` has of its workers is right, each of
// `num_jobs` waits or runs, as it counts them, and no model stands still that
// has something to run.
std::string AuditRequests(size_t num_jobs, std::span<const ServedModel> models,
                          const SchedulerStatus& status);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REQUEST_AUDIT_H_
