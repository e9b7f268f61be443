// Host memory for the content of evicted slots and pages.
#ifndef BOLE_WORKER_SERVICE_ENGINE_HOST_PLACES_H_
#define BOLE_WORKER_SERVICE_ENGINE_HOST_PLACES_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "common/step.h"
#include "kernels/device.h"
#include "kernels/operator_set.h"
#include "worker_service/model/device_arrays.h"
#include "worker_service/model/sequence_memory.h"

namespace bole {

// A place has as many bytes as a slot or a page, and is allocated at the start.
// The scheduler decides what it holds, and for how long.
//
// Copies run concurrently with the rounds. A round waits for the copies from
// the host that are in its own plan, and for copies to the host whose slot or
// page its plan writes. The device waits, never the calling thread.
//
// Not thread-safe.
class HostPlaces {
 public:
  struct Size {
    int num_slots = 0;
    int num_pages = 0;
  };
  // `memory`, `operators` and the device of `arrays` must outlive this.
  // Allocation errors stick in `arrays`.
  HostPlaces(const SequenceMemory& memory, const Size& size,
             OperatorSet& operators, DeviceArrays& arrays);

  // Queues StepPlan::to_host and from_host. The rest of the plan may be queued
  // right after this call. REQUIRES: Validate(StepPlan) accepts the plan.
  // COST: queueing one copy for each part of a slot or page.
  absl::Status QueueCopies(const StepPlan& plan);

 private:
  using Parts = std::vector<MemoryPart>;
  // Adds a copy for each part of the device's item, from or to its place.
  static void AppendParts(const Parts& parts, int item, char* place,
                          std::vector<HostCopy>& copies);
  std::vector<HostCopy> CopiesOf(const MemoryCopies& copies,
                                 bool to_host) const;
  // Whether the plan writes a slot or page that is still being copied to the
  // host.
  bool WritesLeaving(const StepPlan& plan) const;
  bool WritesLeaving(const SequencePlan& sequence) const;

  const SequenceMemory& memory_;
  Device& device_;
  OperatorSet& operators_;
  char* slots_;  // [num_slots, memory_.slot_bytes()]
  char* pages_;  // [num_pages, memory_.page_bytes()]
  // Slots and pages of the device that copies to the host may still be reading.
  std::vector<bool> leaving_slots_;
  std::vector<bool> leaving_pages_;
  bool any_leaving_ = false;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_HOST_PLACES_H_
