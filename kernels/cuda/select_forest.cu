// Selection and packing of the next forest, in two launches of one block for
// each request: the first sorts the candidates of its tree, the second finds
// out how many of every tree the budget has room for, and writes its own rows.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

// The smaller rank is the likelier candidate, then the earlier one: the bits of
// -log_rho, which is no less than 0, before the number of the candidate.
using CandidateRank = uint64_t;
constexpr CandidateRank kNoCandidate = ~CandidateRank{0};

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kSortThreads = 1024;
constexpr int kPackThreads = 128;
constexpr int kMaxRequests = 1024;  // Of a batch.
constexpr int kMaxCandidates =
    DraftShape{kMaxDraftTopK, kMaxDraftDepth}.num_candidates();
constexpr int kMaxPadded = 4096;  // A power of two.
static_assert(kMaxCandidates <= kMaxPadded);

// Per request, between the launches.
struct Ranked {
  CandidateRank* rank;  // [B, kMaxTreeNodes] best first.
  int32_t* count;       // [B] -1: the request has no rows.
};

// A candidate's, by the order in which trees grow.
__device__ int DepthOf(const DraftShape& shape, int candidate) {
  const int k = shape.top_k;
  return candidate < k ? 1 : 2 + (candidate - k) / (k * k);
}

// Ascending. The size is a power of two; all threads of the block.
__device__ void SortRanks(CandidateRank* rank, int size) {
  for (int run = 2; run <= size; run *= 2) {
    for (int stride = run / 2; stride > 0; stride /= 2) {
      __syncthreads();
      for (int i = threadIdx.x; i < size / 2; i += blockDim.x) {
        const int low = 2 * i - (i & (stride - 1));
        const int high = low + stride;
        const bool ascends = (low & run) == 0;
        const CandidateRank a = rank[low];
        const CandidateRank b = rank[high];
        if ((a > b) != ascends) continue;
        rank[low] = b;
        rank[high] = a;
      }
    }
  }
  __syncthreads();
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
  const int room = min(p.max_nodes_per_tree, p.node_limit[b]) - 1;
  for (int c = threadIdx.x; c < padded; c += blockDim.x) {
    const bool fits = c < num_candidates && DepthOf(p.shape, c) <= depth_limit;
    // 0 - x, and not -x: so that both zeros are one.
    rank[c] =
        fits ? static_cast<CandidateRank>(__float_as_uint(0.0f - log_rho[c]))
                       << 32 |
                   static_cast<uint32_t>(c)
             : kNoCandidate;
  }
  SortRanks(rank, padded);
  const int levels = min(depth_limit, p.shape.depth);
  const int num_fitting =
      levels <= 0 ? 0 : DraftShape{p.shape.top_k, levels}.num_candidates();
  const int count = min(room, num_fitting);
  CandidateRank* list = out.rank + static_cast<int64_t>(b) * kMaxTreeNodes;
  for (int i = threadIdx.x; i < count; i += blockDim.x) list[i] = rank[i];
  if (threadIdx.x == 0) out.count[b] = room < 0 ? -1 : count;
}

// How many rows each request gets, by one warp: lane l has the requests l,
// l + 32, ... A request's rows are the root and the first of its list.
class Selection {
 public:
  static constexpr size_t SharedBytes(int max_requests) {
    return 4 * sizeof(int32_t) * static_cast<size_t>(max_requests);
  }

  // shared: SharedBytes(). Of each list, entries below `low` are selected and
  // those from `high` on are not.
  __device__ Selection(const SelectForestParams& p, const Ranked& ranked,
                       int32_t* shared)
      : p_(p),
        ranked_(ranked),
        num_rows_(shared),
        low_(shared + p.max_requests),
        high_(low_ + p.max_requests),
        middle_(high_ + p.max_requests) {}

  // [B], after Run() and a synchronisation.
  __device__ const int32_t* num_rows() const { return num_rows_; }

  __device__ void Run() {
    const int roots = Sum([&](int b) { return ranked_.count[b] >= 0 ? 1 : 0; });
    const int all = Sum([&](int b) {
      high_[b] = max(ranked_.count[b], 0);
      low_[b] = 0;
      return high_[b];
    });
    const int room = max(min(*p_.budget, p_.max_rows) - roots, 0);
    if (all > room) {
      FindValue(room);
      ShareTies(room);
    }
    ForEachRequest(
        [&](int b) { num_rows_[b] = ranked_.count[b] < 0 ? 0 : 1 + high_[b]; });
  }

 private:
  __device__ static int lane() { return threadIdx.x % 32; }

  template <typename F>
  __device__ void ForEachRequest(const F& f) const {
    for (int b = lane(); b < p_.max_requests; b += 32) f(b);
  }
  // Over all requests, in every lane.
  template <typename F>
  __device__ int Sum(const F& f) const {
    int sum = 0;
    ForEachRequest([&](int b) { sum += f(b); });
    return __reduce_add_sync(kAllLanes, sum);
  }

  // The first undecided entry of list b that is not below `value`.
  __device__ int LowerBound(int b, uint32_t value) const {
    const CandidateRank* list =
        ranked_.rank + static_cast<int64_t>(b) * kMaxTreeNodes;
    int low = low_[b];
    int high = high_[b];
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

  // Bit by bit the largest value with no more than `room` candidates below it.
  // What stays undecided are the candidates with that value. REQUIRES: there
  // are more than `room`.
  __device__ void FindValue(int room) {
    uint32_t value = 0;
    for (int bit = 30; bit >= 0; --bit) {
      const uint32_t next = value | 1u << bit;
      const int below = Sum([&](int b) {
        middle_[b] = LowerBound(b, next);
        return middle_[b];
      });
      const bool is_set = below <= room;
      if (is_set) value = next;
      int32_t* const end = is_set ? low_ : high_;
      ForEachRequest([&](int b) { end[b] = middle_[b]; });
    }
  }

  // Of equal candidates the first requests' are selected, until there is no
  // room: then high_ is where each list ends.
  __device__ void ShareTies(int room) {
    int left = room - Sum([&](int b) { return low_[b]; });
    for (int first = 0; first < p_.max_requests; first += 32) {
      const int b = first + lane();
      const int ties = b < p_.max_requests ? high_[b] - low_[b] : 0;
      int through = ties;
      for (int offset = 1; offset < 32; offset *= 2) {
        const int other = __shfl_up_sync(kAllLanes, through, offset);
        if (lane() >= offset) through += other;
      }
      const int taken = min(max(left - (through - ties), 0), ties);
      if (b < p_.max_requests) high_[b] = low_[b] + taken;
      left -= __shfl_sync(kAllLanes, through, 31);
    }
  }

  const SelectForestParams& p_;
  const Ranked& ranked_;
  int32_t* const num_rows_;  // [B]
  int32_t* const low_;       // [B]
  int32_t* const high_;      // [B]
  int32_t* const middle_;    // [B]
};

// Nodes of one tree: the selected candidates get numbers in their order.
class NodeNumbers {
 public:
  static constexpr int kWords = kMaxPadded / 32;
  struct Shared {
    uint32_t selected[kWords];  // A bit for each candidate.
    int32_t before[kWords];     // Selected ones in the words before.
  };

  // By kPackThreads threads. Synchronises.
  __device__ NodeNumbers(const CandidateRank* list, int count, Shared& shared)
      : shared_(shared) {
    static_assert(kWords == kPackThreads);
    const int word = threadIdx.x;
    shared.selected[word] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += kPackThreads) {
      const uint32_t c = static_cast<uint32_t>(list[i]);
      atomicOr(&shared.selected[c / 32], 1u << (c % 32));
    }
    __syncthreads();
    int before = 0;
    for (int w = 0; w < word; ++w) before += __popc(shared.selected[w]);
    shared.before[word] = before;
    __syncthreads();
  }

  // Of a selected candidate, or of the root, which is candidate -1.
  __device__ int Of(int candidate) const {
    if (candidate < 0) return 0;
    const int word = candidate / 32;
    const uint32_t below = (1u << (candidate % 32)) - 1;
    return 1 + shared_.before[word] + __popc(shared_.selected[word] & below);
  }

 private:
  const Shared& shared_;
};

// The row of a candidate, or of the root, which is candidate -1.
__device__ void WriteRow(const SelectForestParams& p, int b, int first_row,
                         int candidate, const NodeNumbers& numbers) {
  const int64_t trees = static_cast<int64_t>(b) * p.shape.num_candidates();
  const int32_t* parent = p.trees.parent + trees;
  const int node = numbers.Of(candidate);
  const int64_t row = first_row + node;
  const bool is_root = candidate < 0;
  p.request[row] = b;
  p.node[row] = node;
  p.parent[row] = is_root ? -1 : numbers.Of(parent[candidate]);
  p.depth[row] = is_root ? 0 : DepthOf(p.shape, candidate);
  p.token[row] = is_root ? p.root[b] : p.trees.token[trees + candidate];
  uint32_t* mask = p.ancestors + row * p.mask_words;
  for (int w = 0; w < p.mask_words; ++w) {
    uint32_t bits = w == 0 ? 1u : 0u;  // The root.
    for (int c = candidate; c >= 0; c = parent[c]) {
      const int number = numbers.Of(c);
      if (number / 32 == w) bits |= 1u << (number % 32);
    }
    mask[w] = bits;
  }
}

__global__ void __launch_bounds__(kPackThreads)
    PackKernel(const __grid_constant__ SelectForestParams p,
               const __grid_constant__ Ranked ranked) {
  extern __shared__ int32_t selection_shared[];
  __shared__ NodeNumbers::Shared numbers_shared;
  __shared__ int first_row;
  const int b = blockIdx.x;
  WaitForPrevious();
  StartNext();
  Selection selection(p, ranked, selection_shared);
  if (threadIdx.x < 32) {
    selection.Run();
    __syncwarp();
    int before = 0;
    for (int i = threadIdx.x; i < b; i += 32) {
      before += selection.num_rows()[i];
    }
    before = __reduce_add_sync(kAllLanes, before);
    if (threadIdx.x == 0) first_row = before;
  }
  __syncthreads();
  const int num_rows = selection.num_rows()[b];
  if (threadIdx.x == 0) {
    if (b == 0) p.first_row[0] = 0;
    p.first_row[b + 1] = first_row + num_rows;
    if (b + 1 == p.max_requests) *p.num_rows = first_row + num_rows;
  }
  const CandidateRank* list =
      ranked.rank + static_cast<int64_t>(b) * kMaxTreeNodes;
  const NodeNumbers numbers(list, num_rows - 1, numbers_shared);
  for (int i = threadIdx.x; i < num_rows; i += kPackThreads) {
    const int candidate = i == 0 ? -1 : static_cast<int>(list[i - 1]);
    WriteRow(p, b, first_row, candidate, numbers);
  }
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
  return LaunchDependent(
      "SelectForest", PackKernel,
      {.grid = requests,
       .block = kPackThreads,
       .shared_bytes = Selection::SharedBytes(params.max_requests)},
      on, params, ranked);
}

}  // namespace bole::cuda
