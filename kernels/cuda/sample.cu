// Sampling in four launches. A draw depends on the row and its ancestors alone,
// so the token of every row is drawn at once, one block for each; then each
// request's tree is walked by a warp, the lengths of the paths are summed up,
// and one block for each visited row reports it.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/gumbel.h"
#include "kernels/cuda/adjusted_logits.cuh"
#include "kernels/cuda/best_tokens.cuh"
#include "kernels/cuda/block_ops.cuh"
#include "kernels/cuda/check.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/token_filter.cuh"
#include "kernels/cuda/token_order.cuh"

namespace bole::cuda {
namespace {

constexpr int kDrawThreads = 512;
constexpr int kReportThreads = 512;
constexpr int kScanThreads = 256;
constexpr int kWalkWarps = 4;  // Requests of a block.
constexpr unsigned kAllLanes = 0xffffffffu;

using Logits = AdjustedLogits<kDrawThreads>;
using Filter = TokenFilter<kDrawThreads>;
using Best = BestTokens<kReportThreads, kMaxTopLogprobs>;

struct DrawShared {
  Logits::Shared logits;
  Filter::Shared filter;
  Rank rank[kDrawThreads / 32];
};

// The best of logit and noise so far: of a thread, in any order.
class NoisyBest {
 public:
  __device__ NoisyBest(const Logits& logits, float max)
      : max_(max), temperature_(logits.control().temperature) {}

  __device__ void Offer(int32_t token, float logit, uint32_t bits) {
    const float score = (logit - max_) / temperature_ + GumbelFromBits(bits);
    if (!(score > Impossible())) return;
    const Rank rank = RankOf(score, token);
    rank_ = rank > rank_ ? rank : rank_;
  }
  __device__ Rank rank() const { return rank_; }

 private:
  const float max_;
  const float temperature_;
  Rank rank_ = RankOf(Impossible(), 0);
};

__device__ Rank DrawFromAll(const Logits& logits, float max) {
  NoisyBest best(logits, max);
  const uint64_t position = uint64_t{1} + logits.position();
  const int count = logits.num_tokens();
  for (int block = threadIdx.x; block * kNoiseBlock < count;
       block += kDrawThreads) {
    const PhiloxCounter bits =
        NoiseBits(logits.control().seed, position, block);
#pragma unroll
    for (int i = 0; i < kNoiseBlock; ++i) {
      const int v = block * kNoiseBlock + i;
      if (v < count) best.Offer(v, logits[v], bits.word[i]);
    }
  }
  return best.rank();
}

__device__ Rank DrawFiltered(const Logits& logits, float max,
                             Filter::Shared& shared) {
  NoisyBest best(logits, max);
  const uint64_t position = uint64_t{1} + logits.position();
  const Filter filter(logits, max, shared);
  filter.ForEach([&](int v, float logit) {
    const PhiloxCounter bits =
        NoiseBits(logits.control().seed, position, v / kNoiseBlock);
    best.Offer(v, logit, bits.word[v % kNoiseBlock]);
  });
  return best.rank();
}

// drawn: [N] the token that follows each row.
__global__ void __launch_bounds__(kDrawThreads)
    DrawKernel(const __grid_constant__ SampleParams p, int32_t* drawn) {
  extern __shared__ uint32_t touched[];
  __shared__ DrawShared shared;
  const int row = blockIdx.x;
  if (row >= *p.batch.rows.count) return;
  const Logits logits(p, row, touched, shared.logits);
  Rank own = kNoRank;
  logits.ForEach([&](int v, float logit) {
    const Rank rank = RankOf(logit, v);
    own = rank > own ? rank : own;
  });
  Rank best = BlockMax<kDrawThreads>(own, shared.rank);
  const float max = ValueOf(best);
  const bool is_greedy = logits.control().temperature == 0;
  if (!is_greedy && max > Impossible()) {
    const bool filters = HasFilters(logits.control());
    own = filters ? DrawFiltered(logits, max, shared.filter)
                  : DrawFromAll(logits, max);
    best = BlockMax<kDrawThreads>(own, shared.rank);
  }
  if (threadIdx.x == 0) drawn[row] = TokenOf(best);
}

// One request's walk, by a warp.
class Walk {
 public:
  __device__ Walk(const SampleParams& p, int request)
      : p_(p),
        request_(request),
        end_(min(p.batch.first_row[request + 1], *p.batch.rows.count)) {}

  // visited: the rows of the path, from the root. The length of the path goes
  // to path_first[request + 1].
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

__global__ void __launch_bounds__(32 * kWalkWarps)
    WalkKernel(const __grid_constant__ SampleParams p, const int32_t* drawn,
               int32_t* visited) {
  const int request = blockIdx.x * kWalkWarps + threadIdx.x / 32;
  if (request >= p.batch.max_requests) return;
  Walk(p, request).Run(drawn, visited + p.batch.first_row[request]);
}

// Lengths at first[1] .. first[count] become the ends of the paths.
__global__ void __launch_bounds__(kScanThreads)
    SumLengthsKernel(int32_t* first, int count) {
  __shared__ int shared[kScanThreads / 32];
  int before = 0;
  for (int begin = 1; begin <= count; begin += kScanThreads) {
    const int i = begin + static_cast<int>(threadIdx.x);
    const int length = i <= count ? first[i] : 0;
    const Prefix prefix = BlockPrefix<kScanThreads>(length, shared);
    if (i <= count) first[i] = before + prefix.before + length;
    before += prefix.total;
  }
  if (threadIdx.x == 0) first[0] = 0;
}

// The request whose path has this entry. REQUIRES: place < path_first[B].
__device__ int RequestOf(const SampleParams& p, int place) {
  int low = 0;
  int high = p.batch.max_requests;
  while (low + 1 < high) {
    const int middle = (low + high) / 2;
    if (p.path_first[middle] <= place) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// Entry blockIdx.x of the paths: its row and token, and their probabilities.
__global__ void __launch_bounds__(kReportThreads)
    ReportKernel(const __grid_constant__ SampleParams p, const int32_t* drawn,
                 const int32_t* visited) {
  extern __shared__ Rank report_lists[];
  __shared__ Best::Shared shared;
  const int place = blockIdx.x;
  if (place >= p.path_first[p.batch.max_requests]) return;
  const int request = RequestOf(p, place);
  const int row =
      visited[p.batch.first_row[request] + place - p.path_first[request]];
  const int num_top = min(p.control[request].top_logprobs, p.num_valid_tokens);
  const float* logits = p.logits + static_cast<int64_t>(row) * p.vocabulary;
  const Best best(logits, p.num_valid_tokens, max(num_top, 1), report_lists,
                  shared);
  const int i = threadIdx.x;
  if (i < num_top) {
    const int64_t out = static_cast<int64_t>(place) * kMaxTopLogprobs + i;
    p.top_token[out] = best.token(i);
    p.top_logprob[out] = best.LogProb(i);
  }
  if (i > 0) return;
  p.path_row[place] = row;
  p.emitted[place] = drawn[row];
  p.logprob[place] = best.softmax().LogProb(logits[drawn[row]]);
}

template <typename Kernel>
absl::Status AllowShared(Kernel* kernel, size_t bytes) {
  return ToStatus(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(bytes)),
      "shared memory of Sample");
}

}  // namespace

absl::Status Sample(const SampleParams& params, int32_t* scratch,
                    const Launch& on) {
  const int rows = params.batch.rows.max;
  const int requests = params.batch.max_requests;
  int32_t* drawn = scratch;
  int32_t* visited = scratch + rows;
  const size_t touched_bytes = Logits::TouchedBytes(params.num_valid_tokens);
  const size_t list_bytes =
      Best::ListBytes(std::min(params.num_valid_tokens, kMaxTopLogprobs));
  absl::Status allowed = AllowShared(DrawKernel, touched_bytes);
  allowed.Update(AllowShared(ReportKernel, list_bytes));
  if (!allowed.ok()) return allowed;

  DrawKernel<<<rows, kDrawThreads, touched_bytes, on.stream>>>(params, drawn);
  WalkKernel<<<(requests + kWalkWarps - 1) / kWalkWarps, 32 * kWalkWarps, 0,
               on.stream>>>(params, drawn, visited);
  SumLengthsKernel<<<1, kScanThreads, 0, on.stream>>>(params.path_first,
                                                      requests);
  ReportKernel<<<rows, kReportThreads, list_bytes, on.stream>>>(params, drawn,
                                                                visited);
  return LaunchStatus("Sample");
}

}  // namespace bole::cuda
