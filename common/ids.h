// The numbers that the scheduler gives out and the worker obeys.
#ifndef BOLE_COMMON_IDS_H_
#define BOLE_COMMON_IDS_H_

#include "common/strong_id.h"

namespace bole {

// A request's place in the pool of recurrent states and convolution windows.
using SlotId = StrongId<struct SlotIdTag>;

// A fixed-size run of key/value rows in the pool of a full-attention layer. A
// page has the same number in every layer.
using PageId = StrongId<struct PageIdTag>;

}  // namespace bole

#endif  // BOLE_COMMON_IDS_H_
