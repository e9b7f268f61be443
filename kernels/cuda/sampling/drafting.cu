// The bookkeeping of drafting, with one block for each request.
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

constexpr int kThreads = 256;
// The most candidates of one level: the children of every lane.
constexpr int kMaxCandidates = kMaxDraftTopK * kMaxDraftTopK;

__global__ void __launch_bounds__(kThreads)
    ExtendRowsKernel(const __grid_constant__ ExtendRowsParams p) {
  const int b = blockIdx.x;
  WaitForPrevious();
  StartNext();
  const int32_t extended = min(*p.num_extended, p.max_requests);
  const int32_t first = p.path.first[b];
  const int32_t end = b < extended ? p.path.first[b + 1] : first;
  for (int32_t i = first + static_cast<int>(threadIdx.x); i < end;
       i += kThreads) {
    const bool is_last = i == end - 1;
    p.request[i] = b;
    p.node[i] = i - first;
    p.parent[i] = i - first - 1;
    p.row_token[i] =
        is_last ? max(p.next_token[b], 0) : p.token[p.path.row[i + 1]];
    p.hidden_row[i] = p.path.row[i];
  }
  if (threadIdx.x > 0) return;
  p.next_committed[b] = p.committed[b] + (end - first);
  if (end > first) p.last_row[b] = end - 1;
  if (b == 0) *p.num_rows = p.path.first[extended];
}

// One request's part of a level.
class Level {
 public:
  // log_rho: [kMaxCandidates] and parent_masks: [k, W], shared.
  __device__ Level(const GrowTreesParams& p, int request, float* log_rho,
                   uint32_t* parent_masks)
      : p_(p),
        request_(request),
        k_(p.shape.top_k),
        num_candidates_(p.level == 0 ? k_ : k_ * k_),
        first_candidate_(p.level == 0 ? 0 : k_ + (p.level - 1) * k_ * k_),
        trees_(static_cast<int64_t>(request) *
               (k_ + (p.shape.depth - 1) * k_ * k_)),
        lanes_(static_cast<int64_t>(request) * k_),
        log_rho_(log_rho),
        parent_masks_(parent_masks) {}

  __device__ void AppendCandidates() {
    const int64_t in = static_cast<int64_t>(request_) * num_candidates_;
    for (int i = threadIdx.x; i < num_candidates_; i += kThreads) {
      const int64_t out = trees_ + first_candidate_ + i;
      const int32_t parent = p_.level == 0 ? -1 : p_.frontier[lanes_ + i / k_];
      const float rho = parent < 0 ? 0 : p_.trees.log_rho[trees_ + parent];
      log_rho_[i] = rho + p_.top_log_prob[in + i];
      p_.trees.token[out] = p_.top_token[in + i];
      p_.trees.parent[out] = parent;
      p_.trees.log_rho[out] = log_rho_[i];
    }
  }

  // Called after the candidates are written and the block is synchronised.
  // Synchronises.
  __device__ void ChooseFrontier() {
    const uint32_t* masks = p_.ancestors + lanes_ * p_.mask_words;
    for (int i = threadIdx.x; i < k_ * p_.mask_words && p_.level > 0;
         i += kThreads) {
      parent_masks_[i] = masks[i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < num_candidates_; i += kThreads) {
      const int lane = RankOfCandidate(i);
      if (lane < k_) SetLane(lane, i);
    }
  }

 private:
  // How many of the level's candidates are better than the i-th.
  __device__ int RankOfCandidate(int i) const {
    int rank = 0;
    for (int j = 0; j < num_candidates_; ++j) {
      const bool is_better =
          log_rho_[j] > log_rho_[i] || (log_rho_[j] == log_rho_[i] && j < i);
      rank += is_better ? 1 : 0;
    }
    return rank;
  }

  // Puts the level's i-th candidate into this lane.
  __device__ void SetLane(int lane, int i) {
    const int64_t out = lanes_ + lane;
    const int parent_lane = i / k_;
    const int node = p_.level * k_ + lane;
    const bool is_first = p_.level == 0;
    p_.frontier[out] = first_candidate_ + i;
    p_.row_token[out] = p_.trees.token[trees_ + first_candidate_ + i];
    p_.row_parent[out] = is_first ? -1 : (p_.level - 1) * k_ + parent_lane;
    p_.hidden_row[out] = is_first ? request_ : request_ * k_ + parent_lane;
    for (int w = 0; w < p_.mask_words; ++w) {
      const uint32_t own = w == node / 32 ? 1u << (node % 32) : 0;
      const uint32_t parents =
          is_first ? 0 : parent_masks_[parent_lane * p_.mask_words + w];
      p_.ancestors[out * p_.mask_words + w] = parents | own;
    }
  }

  const GrowTreesParams& p_;
  const int request_;
  const int k_;
  const int num_candidates_;   // Candidates of this level.
  const int first_candidate_;  // The first of them.
  const int64_t trees_;        // Where the request's candidates begin.
  const int64_t lanes_;        // Where its lanes begin.
  float* const log_rho_;       // log_rho of this level's candidates.
  uint32_t* const parent_masks_;
};

__global__ void __launch_bounds__(kThreads)
    GrowTreesKernel(const __grid_constant__ GrowTreesParams p) {
  extern __shared__ uint32_t parent_masks[];
  __shared__ float log_rho[kMaxCandidates];
  const int request = blockIdx.x;
  WaitForPrevious();
  StartNext();
  if (request >= *p.requests.count) return;
  Level level(p, request, log_rho, parent_masks);
  level.AppendCandidates();
  __syncthreads();
  if (p.level + 1 < p.shape.depth) level.ChooseFrontier();
}

}  // namespace

absl::Status ExtendRows(const ExtendRowsParams& params, const Launch& on) {
  const unsigned requests = params.max_requests;
  return LaunchDependent("ExtendRows", ExtendRowsKernel,
                         {.grid = requests, .block = kThreads}, on, params);
}

absl::Status GrowTrees(const GrowTreesParams& params, const Launch& on) {
  if (params.shape.top_k > kMaxDraftTopK) {
    return absl::UnimplementedError(
        absl::StrCat("GrowTrees: top_k is ", params.shape.top_k, "; at most ",
                     kMaxDraftTopK, " is compiled"));
  }
  const size_t mask_bytes = static_cast<size_t>(params.shape.top_k) *
                            params.mask_words * sizeof(uint32_t);
  const unsigned requests = params.max_requests;
  return LaunchDependent(
      "GrowTrees", GrowTreesKernel,
      {.grid = requests, .block = kThreads, .shared_bytes = mask_bytes}, on,
      params);
}

}  // namespace bole::cuda
