// The walk through a request's tree once the token of every row is drawn.
#ifndef BOLE_KERNELS_CUDA_SAMPLING_SAMPLE_WALK_CUH_
#define BOLE_KERNELS_CUDA_SAMPLING_SAMPLE_WALK_CUH_

#include <cstdint>

#include "kernels/cuda/sampling/row_parts.cuh"
#include "kernels/sampling.h"

namespace bole::cuda {

// One request's walk, by a warp.
class Walk {
 public:
  __device__ Walk(const SampleParams& p, int request)
      : p_(p),
        request_(request),
        end_(min(p.batch.first_row[request + 1], *p.batch.rows.count)) {}

  // Writes the rows of the path, from the root on, to `visited`, and the length
  // of the path to path_first[request + 1].
  __device__ void Run(const int32_t* drawn, int32_t* visited) {
    const SamplingControl& control = p_.control[request_];
    int length = 0;
    int accepted = 0;
    int32_t token = 0;
    int row = FindRow(p_.batch.first_row[request_], /*parent=*/-1, nullptr);
    while (row >= 0) {
      token = drawn[row];
      if (lane() == 0) visited[length] = row;
      ++length;
      if (token == kNoToken) break;
      row = FindRow(row + 1, p_.batch.node[row], &token);
      if (row >= 0) ++accepted;
      if (length == control.max_tokens || IsStop(token)) break;
    }
    if (lane() != 0) return;
    p_.path_first[request_ + 1] = length;
    p_.accepted[request_] = accepted;
    if (length > 0) p_.next_token[request_] = token;
  }

 private:
  __device__ static int lane() { return threadIdx.x % 32; }

  // The first row of the request at or after `row` that has this parent, or -1.
  // With `token`, only a row that carries it.
  __device__ int FindRow(int row, int32_t parent, const int32_t* token) const {
    for (; row < end_; row += 32) {
      const int own = row + lane();
      const bool fits = own < end_ && p_.batch.parent[own] == parent &&
                        (token == nullptr || p_.token[own] == *token);
      const unsigned fitting = __ballot_sync(kAllLanes, fits);
      if (fitting != 0) return row + __ffs(fitting) - 1;
    }
    return -1;
  }

  __device__ bool IsStop(int32_t token) const {
    const int end = p_.first_stop[request_ + 1];
    for (int i = p_.first_stop[request_]; i < end; i += 32) {
      const int own = i + lane();
      const bool fits = own < end && p_.stop_token[own] == token;
      if (__any_sync(kAllLanes, fits)) return true;
    }
    return false;
  }

  const SampleParams& p_;
  const int request_;
  const int end_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SAMPLING_SAMPLE_WALK_CUH_
