// Selection and packing of the next forest, in two launches with one block for
// each request. The first sorts the candidates of its tree. The second finds
// how many candidates of every tree fit into the budget, and writes the rows of
// its own tree.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/sampling/block_ops.cuh"
#include "kernels/cuda/sampling/row_parts.cuh"
#include "kernels/cuda/sampling/select_ranks.cuh"

namespace bole::cuda {
namespace {

// The lists of up to this many requests are copied to shared memory.
constexpr int kStagedRequests = 64;

constexpr int kSortThreads = 1024;
constexpr int kPackThreads = 128;
constexpr int kMaxRequests = 512;  // Requests of a batch.
constexpr int kMaxCandidates =
    DraftShape{kMaxDraftTopK, kMaxDraftDepth}.num_candidates();
constexpr int kMaxPadded = 4096;  // A power of two.
static_assert(kMaxCandidates <= kMaxPadded);

// The result of the first launch, for each request.
struct Ranked {
  CandidateRank* rank;  // [B, kMaxTreeNodes] best first.
  int32_t* count;       // [B] -1: the request has no rows.
};

// A candidate's depth, which follows from the order in which trees grow.
__device__ int DepthOf(const DraftShape& shape, int candidate) {
  const int k = shape.top_k;
  return candidate < k ? 1 : 2 + (candidate - k) / (k * k);
}

__global__ void __launch_bounds__(kSortThreads)
    RankKernel(const __grid_constant__ SelectForestParams p, Ranked out,
               int padded) {
  __shared__ CandidateRank rank[kMaxPadded];
  const int b = blockIdx.x;
  WaitForPrevious();
  StartNext();
  const int num_candidates = p.shape.num_candidates();
  const float* log_rho =
      p.trees.log_rho + static_cast<int64_t>(b) * num_candidates;
  const int depth_limit = p.depth_limit[b];
  const int room =
      min(min(p.cap[b], p.max_nodes_per_tree), p.node_limit[b]) - 1;
  for (int c = threadIdx.x; c < padded; c += blockDim.x) {
    const bool fits = c < num_candidates && DepthOf(p.shape, c) <= depth_limit;
    // 0 - x, unlike -x, is the same for both zeros.
    rank[c] =
        fits ? static_cast<CandidateRank>(__float_as_uint(0.0f - log_rho[c]))
                       << 32 |
                   static_cast<uint32_t>(c)
             : kNoCandidate;
  }
  SortShared(rank, padded);
  const int levels = min(depth_limit, p.shape.depth);
  const int num_fitting =
      levels <= 0 ? 0 : DraftShape{p.shape.top_k, levels}.num_candidates();
  const int count = min(room, num_fitting);
  CandidateRank* list = out.rank + static_cast<int64_t>(b) * kMaxTreeNodes;
  for (int i = threadIdx.x; i < count; i += blockDim.x) list[i] = rank[i];
  if (threadIdx.x == 0) out.count[b] = room < 0 ? -1 : count;
}

// One tree's nodes: the selected candidates get numbers in their order.
class Tree {
 public:
  static constexpr int kWords = kMaxPadded / 32;
  struct Shared {
    uint32_t selected[kWords];  // A bit for each candidate.
    int32_t before[kWords];     // Selected ones in the words before.
    int32_t parent[kMaxTreeNodes];
  };

  // Used by kPackThreads threads. Synchronises.
  __device__ Tree(const SelectForestParams& p, int b, Shared& shared)
      : p_(p),
        request_(b),
        candidates_(static_cast<int64_t>(b) * p.shape.num_candidates()),
        shared_(shared) {}

  // Writes the rows first_row .. of the root and the candidates of `list`.
  __device__ void Write(const CandidateRank* list, int num_rows,
                        int first_row) {
    Number(list, num_rows - 1);
    static_assert(kPackThreads == kMaxTreeNodes);
    const int i = threadIdx.x;
    const bool is_row = i < num_rows;
    const int candidate =
        i == 0 || !is_row ? -1 : static_cast<int>(list[i - 1]);
    const int node = NumberOf(candidate);
    if (is_row) {
      const bool is_root = candidate < 0;
      const int parent =
          is_root ? -1 : NumberOf(p_.trees.parent[candidates_ + candidate]);
      const int64_t row = first_row + node;
      shared_.parent[node] = parent;
      p_.request[row] = request_;
      p_.node[row] = node;
      p_.parent[row] = parent;
      p_.depth[row] = is_root ? 0 : DepthOf(p_.shape, candidate);
      p_.token[row] =
          is_root ? p_.root[request_] : p_.trees.token[candidates_ + candidate];
    }
    __syncthreads();
    if (is_row) WriteMask(node, first_row + node);
  }

 private:
  static_assert(kWords == kPackThreads);

  __device__ void Number(const CandidateRank* list, int count) {
    const int word = threadIdx.x;
    shared_.selected[word] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += kPackThreads) {
      const uint32_t c = static_cast<uint32_t>(list[i]);
      atomicOr(&shared_.selected[c / 32], 1u << (c % 32));
    }
    __syncthreads();
    if (word < 32) {
      int total = 0;
      for (int first = 0; first < kWords; first += 32) {
        const int own = __popc(shared_.selected[first + word]);
        int through = own;
        for (int offset = 1; offset < 32; offset *= 2) {
          const int other = __shfl_up_sync(kAllLanes, through, offset);
          if (word >= offset) through += other;
        }
        shared_.before[first + word] = total + through - own;
        total += __shfl_sync(kAllLanes, through, 31);
      }
    }
    __syncthreads();
  }

  // The node number of a selected candidate, or of the root, which is candidate
  // -1.
  __device__ int NumberOf(int candidate) const {
    if (candidate < 0) return 0;
    const int word = candidate / 32;
    const uint32_t below = (1u << (candidate % 32)) - 1;
    return 1 + shared_.before[word] + __popc(shared_.selected[word] & below);
  }

  __device__ void WriteMask(int node, int64_t row) const {
    constexpr int kMaskWords = kMaxTreeNodes / 32;
    uint32_t bits[kMaskWords] = {};
    for (int n = node; n >= 0; n = shared_.parent[n]) {
#pragma unroll
      for (int w = 0; w < kMaskWords; ++w) {
        bits[w] |= n / 32 == w ? 1u << (n % 32) : 0;
      }
    }
    uint32_t* mask = p_.ancestors + row * p_.mask_words;
#pragma unroll
    for (int w = 0; w < kMaskWords; ++w) {
      if (w < p_.mask_words) mask[w] = bits[w];
    }
    for (int w = kMaskWords; w < p_.mask_words; ++w) mask[w] = 0;
  }

  const SelectForestParams& p_;
  const int request_;
  const int64_t candidates_;  // Where the request's candidates begin.
  Shared& shared_;
};

template <int kLists>
__global__ void __launch_bounds__(kPackThreads)
    PackKernel(const __grid_constant__ SelectForestParams p,
               const __grid_constant__ Ranked ranked) {
  constexpr bool kStages = kLists * 32 <= kStagedRequests;
  extern __shared__ CandidateRank staged[];  // [B, kMaxTreeNodes]
  __shared__ Tree::Shared tree_shared;
  __shared__ int first_row;
  __shared__ int num_rows;
  const int b = blockIdx.x;
  WaitForPrevious();
  StartNext();
  if constexpr (kStages) {
    for (int i = threadIdx.x; i < p.max_requests * kMaxTreeNodes;
         i += kPackThreads) {
      staged[i] = ranked.rank[i];
    }
    __syncthreads();
  }
  const CandidateRank* const lists = kStages ? staged : ranked.rank;
  if (threadIdx.x < 32) {
    const Selection<kLists> selection(p, lists, ranked.count);
    int before = 0;
    selection.ForEachRequest([&](int request, int rows) {
      if (request < b) before += rows;
      if (request == b) num_rows = rows;
    });
    before = __reduce_add_sync(kAllLanes, before);
    if (threadIdx.x == 0) first_row = before;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    if (b == 0) p.first_row[0] = 0;
    p.first_row[b + 1] = first_row + num_rows;
    if (b + 1 == p.max_requests) *p.num_rows = first_row + num_rows;
  }
  Tree(p, b, tree_shared)
      .Write(lists + static_cast<int64_t>(b) * kMaxTreeNodes, num_rows,
             first_row);
}

absl::Status Check(const SelectForestParams& p) {
  if (p.shape.top_k > kMaxDraftTopK || p.shape.depth > kMaxDraftDepth) {
    return absl::UnimplementedError(
        absl::StrCat("SelectForest: trees of top_k ", p.shape.top_k,
                     " and depth ", p.shape.depth, "; at most ", kMaxDraftTopK,
                     " and ", kMaxDraftDepth, " are compiled"));
  }
  if (p.max_nodes_per_tree > kMaxTreeNodes || p.max_requests > kMaxRequests) {
    return absl::UnimplementedError(
        absl::StrCat("SelectForest: ", p.max_requests, " trees of ",
                     p.max_nodes_per_tree, " nodes; at most ", kMaxRequests,
                     " of ", kMaxTreeNodes, " are compiled"));
  }
  return absl::OkStatus();
}

}  // namespace

size_t SelectForestScratchBytes(int max_requests) {
  return max_requests *
         (kMaxTreeNodes * sizeof(CandidateRank) + sizeof(int32_t));
}

absl::Status SelectForest(const SelectForestParams& params, void* scratch,
                          const Launch& on) {
  const absl::Status checked = Check(params);
  if (!checked.ok()) return checked;
  const unsigned requests = params.max_requests;
  auto* const rank = static_cast<CandidateRank*>(scratch);
  const Ranked ranked = {
      .rank = rank,
      .count = reinterpret_cast<int32_t*>(rank + static_cast<size_t>(requests) *
                                                     kMaxTreeNodes)};
  const int padded = static_cast<int>(std::max(
      64u,
      std::bit_ceil(static_cast<unsigned>(params.shape.num_candidates()))));
  const unsigned sort_threads = std::min(padded / 2, kSortThreads);
  const absl::Status sorted = LaunchDependent(
      "SelectForest", RankKernel, {.grid = requests, .block = sort_threads}, on,
      params, ranked, padded);
  if (!sorted.ok()) return sorted;
  if (params.max_requests > kStagedRequests) {
    return LaunchDependent("SelectForest", PackKernel<kMaxRequests / 32>,
                           {.grid = requests, .block = kPackThreads}, on,
                           params, ranked);
  }
  const size_t staged_bytes =
      params.max_requests * kMaxTreeNodes * sizeof(CandidateRank);
  const absl::Status allowed =
      ToStatus(cudaFuncSetAttribute(PackKernel<kStagedRequests / 32>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(staged_bytes)),
               "shared memory of SelectForest");
  if (!allowed.ok()) return allowed;
  return LaunchDependent(
      "SelectForest", PackKernel<kStagedRequests / 32>,
      {.grid = requests, .block = kPackThreads, .shared_bytes = staged_bytes},
      on, params, ranked);
}

}  // namespace bole::cuda
