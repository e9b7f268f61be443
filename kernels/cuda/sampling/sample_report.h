// Reports the probabilities of the drawn tokens and of the alternatives.
#ifndef BOLE_KERNELS_CUDA_SAMPLING_SAMPLE_REPORT_H_
#define BOLE_KERNELS_CUDA_SAMPLING_SAMPLE_REPORT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/sampling.h"

namespace bole::cuda {

template <int kRanks>
struct SampledLogits;  // sampled_logits.cuh

// Queues the report of `count` entries of the paths, from first_place on, after
// their walks. drawn: [N] by row; visited: [N] the rows of each request's path,
// from its first_row on. Instantiated for 1 and kMaxPeers ranks.
template <int kRanks>
absl::Status QueueReport(const SampleParams& params,
                         const SampledLogits<kRanks>& in, int first_place,
                         int count, const int32_t* drawn,
                         const int32_t* visited, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SAMPLING_SAMPLE_REPORT_H_
