#ifndef BOLE_WORKER_SERVICE_RANKS_ROUND_DIGEST_H_
#define BOLE_WORKER_SERVICE_RANKS_ROUND_DIGEST_H_

#include <cstdint>

#include "common/step.h"

namespace bole {

// The digest of a round that ranks compare: a hash over everything in the
// result, to the bit. Results of the same shape that differ in exactly one
// number never have the same digest; other different results do with a
// probability of 2^-64. COST: two nanoseconds for each number of the result.
uint64_t DigestOf(const StepResult& result);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_ROUND_DIGEST_H_
