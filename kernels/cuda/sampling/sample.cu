// Sampling in five launches. A draw depends only on the row and its ancestors,
// so the tokens of all rows are drawn at once: many blocks scan parts of a row,
// and one block merges their results. Then a warp walks each request's tree,
// and the rows that were visited are reported, again by parts. If there are
// several ranks, each scans its own columns and sends the results to the
// others; all of them do the rest alike.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/ranks/exchange.cuh"
#include "kernels/cuda/sampling/adjusted_logits.cuh"
#include "kernels/cuda/sampling/block_ops.cuh"
#include "kernels/cuda/sampling/row_parts.cuh"
#include "kernels/cuda/sampling/sample_best.cuh"
#include "kernels/cuda/sampling/sample_groups.cuh"
#include "kernels/cuda/sampling/sample_nucleus.cuh"
#include "kernels/cuda/sampling/sample_report.h"
#include "kernels/cuda/sampling/sample_walk.cuh"
#include "kernels/cuda/sampling/sampled_logits.cuh"
#include "kernels/cuda/sampling/token_filter.cuh"
#include "kernels/cuda/sampling/token_order.cuh"

namespace bole::cuda {
namespace {

constexpr int kDrawThreads = 512;
constexpr int kWalkThreads = 1024;
// The most parts of a row that a block has, so that it looks up the row's
// request only once for all of them. Few rows are divided among more blocks.
constexpr int kMaxPartsPerBlock = 8;
constexpr int PartsPerBlock(int rows) {
  return rows >= 128 ? kMaxPartsPerBlock : rows >= 32 ? 4 : 1;
}

template <int kRanks>
using PartLogits = AdjustedLogits<kPartThreads, kRanks>;
template <int kRanks>
using RowLogits = AdjustedLogits<kDrawThreads, kRanks>;
constexpr size_t TouchedBytes(const SampleParams& params) {
  return RowLogits<1>::TouchedBytes(params.num_valid_tokens);
}

// Block (x, y) has the parts x * parts_per_block .. of this rank's columns of
// row first_row + y.
template <int kRanks>
__global__ void __launch_bounds__(kPartThreads, 4)
    ScanKernel(const __grid_constant__ SampleParams p,
               const __grid_constant__ SampledLogits<kRanks> in, int first_row,
               int parts_per_block) {
  __shared__ typename PartLogits<kRanks>::Shared shared;
  __shared__ uint32_t touched[kMaxPartsPerBlock * kPartTokens / 32];
  const int row = first_row + static_cast<int>(blockIdx.y);
  WaitForPrevious();
  StartNext();
  const int first = blockIdx.x * parts_per_block;
  const auto group_of = [&](int i) {
    return in.first_group + GroupOf(first + i);
  };
  const auto scan_row = [&] {
    const CutRow whole(in.cut, row, p.num_valid_tokens, in.are_aligned);
    const LogitRow raw = whole.PartOf(in.cut.ranks.rank());
    float logit[kThreadTokens];
    // This load overlaps the lookup of the row's request.
    bool has_nan = raw.Load(group_of(0), logit);
    const int request = p.batch.request[row];
    const int32_t position = p.batch.committed[request] + p.batch.depth[row];
    const DrawnRow drawn = {.row = static_cast<int>(blockIdx.y),
                            .control = p.control[request],
                            .next_position = uint64_t{1} + position,
                            .num_tokens = p.num_valid_tokens};
    const GroupSender sender(in.cut.ranks, gridDim.y, in.num_groups);
    const auto scan = [&](const auto& adjust) {
      for (int i = 0; i < parts_per_block; ++i) {
        const int group = group_of(i);
        if (group >= in.end_group) break;
        if (i > 0) has_nan = raw.Load(group, logit);
        adjust(group);
        ScanGroup(drawn, group, logit, has_nan, sender);
      }
    };
    if (HasPlainLogits(p, request, drawn.control, position)) {
      scan([](int) {});
      return;
    }
    const int begin = in.first_group * kGroupTokens + first * kPartTokens;
    const PartLogits<kRanks> logits(p, whole, row, begin,
                                    begin + parts_per_block * kPartTokens,
                                    touched, shared);
    scan([&](int group) { logits.Adjust(group, logit); });
  };
  if (row < *p.batch.rows.count) scan_row();
  EndSending(in.cut.ranks);
}

// The shared memory of a draw. It needs one member of the union at a time.
template <int kRanks>
struct DrawShared {
  typename RowLogits<kRanks>::Shared logits;
  Rank rank[kDrawThreads / 32];
  union {
    typename TokenFilter<kDrawThreads, kRanks>::Shared filter;
    typename BestDraw<kDrawThreads, kRanks>::Shared best;
    typename NucleusDraw<kDrawThreads, kRanks>::Shared nucleus;
  };
};

// Draws one row's token, by a block.
template <int kRanks>
class RowDraw {
 public:
  // `row` is the row of the groups' results.
  __device__ RowDraw(const RowLogits<kRanks>& logits,
                     const GroupResults& groups, int row,
                     DrawShared<kRanks>& shared)
      : logits_(logits),
        num_groups_(groups.num_groups),
        best_(groups.best + static_cast<int64_t>(row) * num_groups_),
        candidate_(groups.candidate + static_cast<int64_t>(row) * num_groups_),
        sum_(groups.sum + static_cast<int64_t>(row) * num_groups_),
        scorer_{.seed = logits.control().seed,
                .position = logits.next_position(),
                .max = 0,
                .temperature = logits.control().temperature},
        shared_(shared) {}

  __device__ int32_t Draw() {
    Rank own = kNoRank;
    for (int g = threadIdx.x; g < num_groups_; g += kDrawThreads) {
      own = max(own, best_[g]);
    }
    const Rank best = BlockMax<kDrawThreads>(own, shared_.rank);
    if (best == kNotNumbers) return kNoToken;
    scorer_.max = ValueOf(best);
    if (!(scorer_.max > Impossible())) return kNoToken;
    const SamplingControl& control = logits_.control();
    const DrawKind kind = KindOf(control, logits_.num_tokens());
    if (kind == DrawKind::kGreedy) return TokenOf(best);
    if (kind == DrawKind::kFromAll) return DrawFromAll();
    BestDraw<kDrawThreads, kRanks> draw(logits_, scorer_, best_, num_groups_,
                                        shared_.best);
    if (kind == DrawKind::kFromBest && draw.List()) return draw.Draw();
    __syncthreads();  // The list may still be read.
    return DrawFiltered();
  }

 private:
  __device__ int32_t DrawFromAll() {
    Rank own = kNoRank;
    Rank own_candidate = kNoRank;
    for (int g = threadIdx.x; g < num_groups_; g += kDrawThreads) {
      const Rank candidate = candidate_[g];
      if (candidate == kNoRank) continue;
      const int32_t token = TokenOf(candidate);
      const Rank rank = RankOf(scorer_.Score(token, ValueOf(candidate)), token);
      if (rank <= own) continue;
      own = rank;
      own_candidate = candidate;
    }
    const Rank winner = BlockMax<kDrawThreads>(own, shared_.rank);
    if (!HasFilters(logits_.control())) return TokenOf(winner);
    const Rank candidate = BlockMax<kDrawThreads>(
        own == winner ? own_candidate : kNoRank, shared_.rank);
    NucleusDraw<kDrawThreads, kRanks> draw(logits_, scorer_, best_, sum_,
                                           num_groups_, shared_.nucleus);
    return draw.Draw(candidate);
  }

  __device__ int32_t DrawFiltered() {
    const TokenFilter<kDrawThreads, kRanks> filter(logits_, scorer_.max,
                                                   shared_.filter);
    Rank own = kNoRank;
    filter.ForEach([&](int v, float logit) {
      own = max(own, RankOf(scorer_.Score(v, logit), v));
    });
    return TokenOf(BlockMax<kDrawThreads>(own, shared_.rank));
  }

  const RowLogits<kRanks>& logits_;
  const int num_groups_;
  const Rank* const best_;       // [G]
  const Rank* const candidate_;  // [G]
  const double* const sum_;      // [G]
  Scorer scorer_;
  DrawShared<kRanks>& shared_;
};

template <int kRanks>
__global__ void __launch_bounds__(kDrawThreads, 2)
    DrawKernel(const __grid_constant__ SampleParams p,
               const __grid_constant__ SampledLogits<kRanks> in, int first_row,
               int32_t* drawn) {
  extern __shared__ uint32_t row_touched[];
  __shared__ DrawShared<kRanks> shared;
  const int row = first_row + static_cast<int>(blockIdx.x);
  WaitForPrevious();
  StartNext();
  const auto groups =
      GroupResults::In(AwaitResults(in.cut.ranks), gridDim.x, in.num_groups);
  if (row >= *p.batch.rows.count) return;
  // The best of every group is known; only filters read the logits again.
  const SamplingControl& control = p.control[p.batch.request[row]];
  const bool is_read = control.temperature > 0 && HasFilters(control);
  const CutRow raw(in.cut, row, p.num_valid_tokens, in.are_aligned);
  const RowLogits<kRanks> logits(p, raw, row, 0,
                                 is_read ? p.num_valid_tokens : 0, row_touched,
                                 shared.logits);
  const int32_t token =
      RowDraw<kRanks>(logits, groups, blockIdx.x, shared).Draw();
  if (threadIdx.x == 0) drawn[row] = token;
}

// One block does the walks of all requests and computes where each begins in
// the paths.
__global__ void __launch_bounds__(kWalkThreads)
    WalkKernel(const __grid_constant__ SampleParams p, const int32_t* drawn,
               int32_t* visited) {
  __shared__ int shared[kWalkThreads / 32];
  WaitForPrevious();
  StartNext();
  const int requests = p.batch.max_requests;
  for (int b = threadIdx.x / 32; b < requests; b += kWalkThreads / 32) {
    Walk(p, b).Run(drawn, visited + p.batch.first_row[b]);
  }
  __syncthreads();
  // Lengths at first[1] .. first[B] become the ends of the paths.
  int32_t* const first = p.path_first;
  int before = 0;
  for (int begin = 1; begin <= requests; begin += kWalkThreads) {
    const int i = begin + static_cast<int>(threadIdx.x);
    const int length = i <= requests ? first[i] : 0;
    const Prefix prefix = BlockPrefix<kWalkThreads>(length, shared);
    if (i <= requests) first[i] = before + prefix.before + length;
    before += prefix.total;
  }
  if (threadIdx.x == 0) first[0] = 0;
}

// Draws the tokens of `count` rows, from first_row on, into `drawn`.
template <int kRanks>
absl::Status QueueDraws(const SampleParams& params,
                        const SampledLogits<kRanks>& in, int first_row,
                        int count, int32_t* drawn, const Launch& on) {
  const unsigned rows = count;
  const int share = PartsPerBlock(count);
  const int groups = in.end_group - in.first_group;
  const int parts = (groups + kPartWarps - 1) / kPartWarps;
  const unsigned blocks = std::max((parts + share - 1) / share, 1);
  absl::Status status =
      LaunchDependent("Sample", ScanKernel<kRanks>,
                      {.grid = dim3(blocks, rows), .block = kPartThreads}, on,
                      params, in, first_row, share);
  status.Update(LaunchDependent("Sample", DrawKernel<kRanks>,
                                {.grid = rows,
                                 .block = kDrawThreads,
                                 .shared_bytes = TouchedBytes(params)},
                                on, params, in, first_row, drawn));
  return status;
}

// Bytes of what a rank keeps for its rows. If there is only one rank, its
// results follow.
size_t KeptBytes(int rows) { return 2 * sizeof(int32_t) * rows; }

template <int kRanks>
absl::Status Check(const SampleParams& params,
                   const SampledLogits<kRanks>& in) {
  const int num_tokens = params.num_valid_tokens;
  if (in.parts.num_parts > kMaxParts) {
    return absl::UnimplementedError(
        absl::StrCat("Sample: ", num_tokens, " tokens; up to ",
                     kMaxParts * kPartTokens, " are compiled"));
  }
  for (int r = 1; r < in.cut.ranks.count(); ++r) {
    const int first = in.cut.first[r];
    if (first < num_tokens && first % kGroupTokens != 0) {
      return absl::UnimplementedError(
          absl::StrCat("Sample: rank ", r, " has logits from token ", first,
                       " on; only multiples of ", kGroupTokens, " can be"));
    }
  }
  return ToStatus(
      cudaFuncSetAttribute(DrawKernel<kRanks>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(TouchedBytes(params))),
      "shared memory of Sample");
}

template <int kRanks>
absl::Status SampleFrom(const SampleParams& params,
                        const LogitParts<kRanks>& logits, int32_t* drawn,
                        const Launch& on) {
  const SampledLogits<kRanks> in = LookAt(params, logits);
  absl::Status status = Check(params, in);
  if (!status.ok()) return status;
  const int rows = params.batch.rows.max;
  int32_t* const visited = drawn + rows;
  const int at_once = RowsAtOnce(logits.ranks, rows, in.RowBytes());
  for (int first = 0; first < rows; first += at_once) {
    status.Update(QueueDraws(params, in, first, std::min(at_once, rows - first),
                             drawn, on));
  }
  status.Update(LaunchDependent("Sample", WalkKernel,
                                {.grid = 1, .block = kWalkThreads}, on, params,
                                drawn, visited));
  for (int first = 0; first < rows; first += at_once) {
    status.Update(QueueReport(params, in, first,
                              std::min(at_once, rows - first), drawn, visited,
                              on));
  }
  return status;
}

}  // namespace

size_t SampleScratchBytes(const SampleParams& params, int num_ranks) {
  const int rows = params.batch.rows.max;
  if (num_ranks > 1) return KeptBytes(rows);
  const CutLogits logits = WholeLogits(params.logits, params.vocabulary);
  return KeptBytes(rows) + rows * LookAt(params, logits.whole).RowBytes();
}

absl::Status Sample(const SampleParams& params, const CutLogits& logits,
                    void* scratch, const Launch& on) {
  auto* const drawn = static_cast<int32_t*>(scratch);
  if (logits.is_cut) return SampleFrom(params, logits.parts, drawn, on);
  LogitParts<1> whole = logits.whole;
  whole.ranks.results =
      static_cast<char*>(scratch) + KeptBytes(params.batch.rows.max);
  return SampleFrom(params, whole, drawn, on);
}

}  // namespace bole::cuda
