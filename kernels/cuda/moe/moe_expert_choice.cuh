// The experts of a row, found by a warp.
#ifndef BOLE_KERNELS_CUDA_MOE_MOE_EXPERT_CHOICE_CUH_
#define BOLE_KERNELS_CUDA_MOE_MOE_EXPERT_CHOICE_CUH_

#include <climits>
#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/moe/moe_lanes.cuh"

namespace bole::cuda::moe {

struct Chosen {
  int32_t expert;
  float weight;
};

// Lane i gets the row's expert number i, by the logit, of `num_chosen`; ties go
// to the lower expert. Softmax over all experts, then division by the sum of
// the chosen ones, is the softmax over the chosen logits. REQUIRES: at most
// 32 kOfLane experts.
template <int kOfLane>
__device__ Chosen ChooseExpert(const float* logits, int num_experts,
                               int num_chosen) {
  uint32_t keys[kOfLane];
  uint32_t left = 0;  // Which of them are not chosen yet.
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) {
    const int e = 32 * i + Lane();
    keys[i] = 0;
    if (e >= num_experts) continue;
    keys[i] = OrderedLogit(__ldcg(logits + e));
    left |= 1u << i;
  }
  uint32_t top = 0;
  uint32_t own_key = 0;
  int own_expert = 0;
  for (int choice = 0; choice < num_chosen; ++choice) {
    uint32_t key = 0;
    int expert = INT_MAX;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const bool is_better = expert == INT_MAX || keys[i] > key;
      if ((left >> i & 1u) == 0 || !is_better) continue;
      key = keys[i];
      expert = 32 * i + Lane();
    }
    const uint32_t best = __reduce_max_sync(kAllLanes, key);
    const int winner =
        __reduce_min_sync(kAllLanes, key == best ? expert : INT_MAX);
    if (winner % 32 == Lane()) left &= ~(1u << (winner / 32));
    if (choice == 0) top = best;
    if (choice != Lane()) continue;
    own_key = best;
    own_expert = winner;
  }
  const bool is_used = Lane() < num_chosen;
  const float power =
      is_used ? expf(FromOrdered(own_key) - FromOrdered(top)) : 0;
  const float sum = WarpSum(power);
  return {own_expert, power / sum};
}

}  // namespace bole::cuda::moe

#endif  // BOLE_KERNELS_CUDA_MOE_MOE_EXPERT_CHOICE_CUH_
