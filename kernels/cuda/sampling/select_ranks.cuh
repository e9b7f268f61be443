// Decides how many of each tree's ranked candidates fit into the batch's
// budget.
#ifndef BOLE_KERNELS_CUDA_SAMPLING_SELECT_RANKS_CUH_
#define BOLE_KERNELS_CUDA_SAMPLING_SELECT_RANKS_CUH_

#include <cstdint>

#include "kernels/cuda/sampling/row_parts.cuh"
#include "kernels/drafting.h"

namespace bole::cuda {

// A smaller rank means a likelier candidate, or an equally likely one with a
// smaller number. The upper bits are those of -log_rho, which is not negative;
// the lower ones are the number of the candidate.
using CandidateRank = uint64_t;
inline constexpr CandidateRank kNoCandidate = ~CandidateRank{0};

// Decides how many rows each request gets, by one warp. Lane l has the requests
// l, l + 32, ..., kLists of them. A request's rows are the root and the first
// entries of its list: those of its floor, however unlikely, and then those
// that are among the likeliest of the batch.
template <int kLists>
class Selection {
 public:
  // `list` has the ranks of every request, no more than its cap allows. In each
  // list, entries below `low` are selected and those from `high` on are not.
  __device__ Selection(const SelectForestParams& p, const CandidateRank* list,
                       const int32_t* count)
      : p_(p), list_(list) {
    ForEachList([&](int i, int b) {
      is_used_[i] = b < p.max_requests && count[b] >= 0;
      high_[i] = is_used_[i] ? count[b] : 0;
      low_[i] = is_used_[i] ? min(p.floor[b] - 1, high_[i]) : 0;
    });
    const int roots = Sum([&](int i) { return is_used_[i] ? 1 : 0; });
    const int all = Sum([&](int i) { return high_[i]; });
    // The room includes what the floors take.
    const int room = max(min(*p.budget, p.max_rows) - roots, 0);
    if (all <= room) return;
    FindValue(room);
    ShareTies(room);
  }

  // Calls f(request, rows) for the lane's requests.
  template <typename F>
  __device__ void ForEachRequest(const F& f) const {
    ForEachList([&](int i, int b) {
      if (b < p_.max_requests) f(b, is_used_[i] ? 1 + high_[i] : 0);
    });
  }

 private:
  template <typename F>
  __device__ void ForEachList(const F& f) const {
#pragma unroll
    for (int i = 0; i < kLists; ++i) {
      f(i, 32 * i + static_cast<int>(threadIdx.x % 32));
    }
  }
  // Returns the sum over all requests in every lane.
  template <typename F>
  __device__ int Sum(const F& f) const {
    int sum = 0;
    ForEachList([&](int i, int) { sum += f(i); });
    return __reduce_add_sync(kAllLanes, sum);
  }

  // The first undecided entry of a list that is not below `value`.
  __device__ int LowerBound(int i, int b, uint32_t value) const {
    const CandidateRank* list = list_ + static_cast<int64_t>(b) * kMaxTreeNodes;
    int low = low_[i];
    int high = high_[i];
    while (low < high) {
      const int middle = (low + high) / 2;
      if (static_cast<uint32_t>(list[middle] >> 32) < value) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  // Finds, bit by bit, the largest value with no more than `room` candidates
  // below it, and marks these as selected; those of a floor count as below any
  // value. If fewer than `room` are selected, all undecided candidates have
  // that value; otherwise none of the undecided will be selected. REQUIRES:
  // there are more than `room` candidates.
  __device__ void FindValue(int room) {
    uint32_t value = 0;
    int below = Sum([&](int i) { return low_[i]; });
    for (int bit = 30; bit >= 0 && below < room; --bit) {
      const uint32_t next = value | 1u << bit;
      int middle[kLists];
      ForEachList([&](int i, int b) { middle[i] = LowerBound(i, b, next); });
      const int sum = Sum([&](int i) { return middle[i]; });
      const bool is_set = sum <= room;
      if (is_set) {
        value = next;
        below = sum;
      }
      ForEachList(
          [&](int i, int) { (is_set ? low_[i] : high_[i]) = middle[i]; });
    }
  }

  // Selects equal candidates in the order of requests until there is no more
  // room. Afterwards high_ is the number of selected entries of each list.
  __device__ void ShareTies(int room) {
    const int lane = threadIdx.x % 32;
    int left = room - Sum([&](int i) { return low_[i]; });
    ForEachList([&](int i, int) {
      const int ties = high_[i] - low_[i];
      int through = ties;
      for (int offset = 1; offset < 32; offset *= 2) {
        const int other = __shfl_up_sync(kAllLanes, through, offset);
        if (lane >= offset) through += other;
      }
      high_[i] = low_[i] + min(max(left - (through - ties), 0), ties);
      left -= __shfl_sync(kAllLanes, through, 31);
    });
  }

  const SelectForestParams& p_;
  const CandidateRank* const list_;  // [B, kMaxTreeNodes]
  bool is_used_[kLists];
  int low_[kLists];
  int high_[kLists];
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SAMPLING_SELECT_RANKS_CUH_
