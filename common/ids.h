// The ids that the scheduler assigns and the worker uses.
#ifndef BOLE_COMMON_IDS_H_
#define BOLE_COMMON_IDS_H_

#include <cstdint>

#include "common/strong_id.h"

namespace bole {

// A request's place in the pool of recurrent states and convolution windows.
using SlotId = StrongId<struct SlotIdTag>;

// A fixed-size run of key/value rows in the pool of a full-attention layer. A
// page has the same number in every layer.
using PageId = StrongId<struct PageIdTag>;

// A worker that this scheduler was told of, numbered from 0 in that order,
// whether it is connected or not.
using WorkerId = StrongId<struct WorkerIdTag>;

// A request that this scheduler accepted, numbered in the order of arrival. No
// number is used twice while the process lives.
using JobId = StrongId<struct JobIdTag, uint64_t>;

// A model that this scheduler serves, numbered from 0 as its command line names
// them.
using ModelId = StrongId<struct ModelIdTag>;

}  // namespace bole

#endif  // BOLE_COMMON_IDS_H_
