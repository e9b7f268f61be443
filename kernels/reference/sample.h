#ifndef BOLE_KERNELS_REFERENCE_SAMPLE_H_
#define BOLE_KERNELS_REFERENCE_SAMPLE_H_

#include "common/thread_pool.h"
#include "kernels/sampling.h"

namespace bole::reference {

// The contract is in kernels/sampling.h. Beyond it:
//
// - A request without rows, or whose rows all have parents, gets an empty path
//   and accepted 0; its next_token keeps its value.
// - A draft counts as accepted when its token is drawn, also where the walk
//   then stops before its row: accepted is the length of the path or one less.
// - Of outputs by visited node, those below path_first[B] are written, and of
//   each row of alternatives the first min(top_logprobs, num_valid_tokens).
// - The log probability of kNoToken is 0.
//
// Each request is one task of the pool. Its result depends on nothing outside
// its own rows, slot and parameters. COST: O(V) for each visited row.
void Sample(const SampleParams& params, ThreadPool& pool);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_SAMPLE_H_
