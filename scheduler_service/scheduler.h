// The decisions: what runs in the next round, and what became of the last.
#ifndef BOLE_SCHEDULER_SERVICE_SCHEDULER_H_
#define BOLE_SCHEDULER_SERVICE_SCHEDULER_H_

#include "scheduler_service/mailbox.h"
#include "scheduler_service/speculation.h"

namespace bole {

struct SchedulerOptions {
  AdmissionLimits admission;
  Speculation speculation;
  int max_running = 256;  // Requests that run together, if the worker can.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_SCHEDULER_H_
