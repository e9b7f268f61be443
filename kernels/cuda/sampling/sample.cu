// Sampling in five launches. A draw depends on the row and its ancestors alone,
// so the token of every row is drawn at once: many blocks look at parts of the
// row, one puts together what they found. Then each request's tree is walked by
// a warp, and the rows that were visited are reported, again by parts.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/sampling/adjusted_logits.cuh"
#include "kernels/cuda/sampling/block_ops.cuh"
#include "kernels/cuda/sampling/row_best.cuh"
#include "kernels/cuda/sampling/row_parts.cuh"
#include "kernels/cuda/sampling/sample_best.cuh"
#include "kernels/cuda/sampling/sample_groups.cuh"
#include "kernels/cuda/sampling/sample_nucleus.cuh"
#include "kernels/cuda/sampling/sample_walk.cuh"
#include "kernels/cuda/sampling/token_filter.cuh"
#include "kernels/cuda/sampling/token_order.cuh"

namespace bole::cuda {
namespace {

constexpr int kDrawThreads = 512;
constexpr int kWalkThreads = 1024;
constexpr int kReportRows = 16;  // Whose parts are looked at at a time.
// The most parts of a row that a block has, so that it looks up only once what
// the row is. Few rows are shared among more blocks.
constexpr int kMaxPartsPerBlock = 8;
constexpr int PartsPerBlock(int rows) {
  return rows >= 128 ? kMaxPartsPerBlock : rows >= 32 ? 4 : 1;
}

using PartLogits = AdjustedLogits<kPartThreads>;
using RowLogits = AdjustedLogits<kDrawThreads>;

// Memory that the launches share.
struct SampleScratch {
  int32_t* drawn;       // [N] the token that follows each row, or kNoToken.
  int32_t* visited;     // [N] the rows of each request's path.
  GroupResults groups;  // Until the tokens are drawn; then, in their place,
  PartResults parts;    // of the visited rows.

  static size_t Bytes(int rows, int num_tokens) {
    return 2 * sizeof(int32_t) * rows + sizeof(double) +
           std::max(
               GroupResults::Bytes(rows, NumGroups(num_tokens)),
               PartResults::Bytes(rows, NumParts(num_tokens), kMaxTopLogprobs));
  }
  static SampleScratch In(void* memory, int rows, int num_tokens) {
    auto* const drawn = static_cast<int32_t*>(memory);
    void* const results = drawn + 2 * static_cast<int64_t>(rows);
    return {
        drawn, drawn + rows,
        GroupResults::In(results, rows, NumGroups(num_tokens)),
        PartResults::In(results, rows, NumParts(num_tokens), kMaxTopLogprobs)};
  }
};

// Block (x, row) has the parts x * parts_per_block .. of the row.
__global__ void __launch_bounds__(kPartThreads, 4)
    ScanKernel(const __grid_constant__ SampleParams p,
               const __grid_constant__ GroupResults groups, bool is_aligned,
               int parts_per_block) {
  __shared__ PartLogits::Shared shared;
  __shared__ uint32_t touched[kMaxPartsPerBlock * kPartTokens / 32];
  const int row = blockIdx.y;
  WaitForPrevious();
  StartNext();
  if (row >= *p.batch.rows.count) return;
  const LogitRow raw =
      RowOf(p.logits, row, p.vocabulary, p.num_valid_tokens, is_aligned);
  const int first = blockIdx.x * parts_per_block;
  float logit[kThreadTokens];
  // While the row's request is looked up.
  bool has_nan = raw.Load(GroupOf(first), logit);
  const int request = p.batch.request[row];
  const int32_t position = p.batch.committed[request] + p.batch.depth[row];
  const DrawnRow drawn = {.row = row,
                          .control = p.control[request],
                          .next_position = uint64_t{1} + position,
                          .num_tokens = p.num_valid_tokens};
  const auto scan = [&](const auto& adjust) {
    for (int i = 0; i < parts_per_block; ++i) {
      const int group = GroupOf(first + i);
      if (group >= groups.num_groups) break;
      if (i > 0) has_nan = raw.Load(group, logit);
      adjust(group);
      ScanGroup(drawn, group, logit, has_nan, groups);
    }
  };
  if (HasPlainLogits(p, request, drawn.control, position)) {
    scan([](int) {});
    return;
  }
  const PartLogits logits(p, row, first * kPartTokens,
                          (first + parts_per_block) * kPartTokens, is_aligned,
                          touched, shared);
  scan([&](int group) { logits.Adjust(group, logit); });
}

// What of the shared memory a draw needs at a time.
struct DrawShared {
  RowLogits::Shared logits;
  Rank rank[kDrawThreads / 32];
  union {
    TokenFilter<kDrawThreads>::Shared filter;
    BestDraw<kDrawThreads>::Shared best;
    NucleusDraw<kDrawThreads>::Shared nucleus;
  };
};

// One row's token, by a block.
class RowDraw {
 public:
  __device__ RowDraw(const RowLogits& logits, const GroupResults& groups,
                     int row, DrawShared& shared)
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
    BestDraw<kDrawThreads> draw(logits_, scorer_, best_, num_groups_,
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
    NucleusDraw<kDrawThreads> draw(logits_, scorer_, best_, sum_, num_groups_,
                                   shared_.nucleus);
    return draw.Draw(candidate);
  }

  __device__ int32_t DrawFiltered() {
    const TokenFilter<kDrawThreads> filter(logits_, scorer_.max,
                                           shared_.filter);
    Rank own = kNoRank;
    filter.ForEach([&](int v, float logit) {
      own = max(own, RankOf(scorer_.Score(v, logit), v));
    });
    return TokenOf(BlockMax<kDrawThreads>(own, shared_.rank));
  }

  const RowLogits& logits_;
  const int num_groups_;
  const Rank* const best_;       // [G]
  const Rank* const candidate_;  // [G]
  const double* const sum_;      // [G]
  Scorer scorer_;
  DrawShared& shared_;
};

__global__ void __launch_bounds__(kDrawThreads, 2)
    DrawKernel(const __grid_constant__ SampleParams p, GroupResults groups,
               bool is_aligned, int32_t* drawn) {
  extern __shared__ uint32_t row_touched[];
  __shared__ DrawShared shared;
  const int row = blockIdx.x;
  WaitForPrevious();
  StartNext();
  if (row >= *p.batch.rows.count) return;
  // The groups have their best already; filters look at the tokens again.
  const SamplingControl& control = p.control[p.batch.request[row]];
  const bool is_read = control.temperature > 0 && HasFilters(control);
  const RowLogits logits(p, row, 0, is_read ? p.num_valid_tokens : 0,
                         is_aligned, row_touched, shared.logits);
  const int32_t token = RowDraw(logits, groups, row, shared).Draw();
  if (threadIdx.x == 0) drawn[row] = token;
}

// One block: every request's walk, and where in the paths they begin.
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

// An entry of the paths.
struct Visit {
  int request;
  int row;
  int num_top;  // Alternatives to report.

  // REQUIRES: place < path_first[B].
  __device__ Visit(const SampleParams& p, const int32_t* visited, int place) {
    int low = 0;
    int high = p.batch.max_requests;
    while (low + 1 < high) {
      const int middle = (low + high) / 2;
      (p.path_first[middle] <= place ? low : high) = middle;
    }
    request = low;
    row = visited[p.batch.first_row[request] + place - p.path_first[request]];
    num_top = min(p.control[request].top_logprobs, p.num_valid_tokens);
  }
};

__global__ void __launch_bounds__(kPartThreads)
    ReportPartsKernel(const __grid_constant__ SampleParams p,
                      const int32_t* visited, PartResults parts,
                      bool is_aligned) {
  __shared__ PartShared<kMaxTopLogprobs> shared;
  WaitForPrevious();
  StartNext();
  const int num_places = p.path_first[p.batch.max_requests];
  for (int place = blockIdx.y; place < num_places; place += gridDim.y) {
    const Visit visit(p, visited, place);
    const LogitRow logits = RowOf(p.logits, visit.row, p.vocabulary,
                                  p.num_valid_tokens, is_aligned);
    const int part = blockIdx.x;
    float logit[kThreadTokens];
    logits.Load(GroupOf(part), logit);
    FindPartBest(logits, part, logit, visit.num_top, parts, place, shared);
  }
}

// Entry blockIdx.x of the paths: its row and token, and their probabilities.
__global__ void __launch_bounds__(32)
    ReportKernel(const __grid_constant__ SampleParams p, const int32_t* drawn,
                 const int32_t* visited, PartResults parts) {
  extern __shared__ Rank report_shared[];
  const int place = blockIdx.x;
  WaitForPrevious();
  StartNext();
  if (place >= p.path_first[p.batch.max_requests]) return;
  const Visit visit(p, visited, place);
  const RowBest best(parts, place, visit.num_top, report_shared);
  const int i = threadIdx.x;
  if (i < visit.num_top) {
    const int64_t out = static_cast<int64_t>(place) * kMaxTopLogprobs + i;
    p.top_token[out] = TokenOf(best.best(i));
    p.top_logprob[out] = best.softmax().LogProb(ValueOf(best.best(i)));
  }
  if (i > 0) return;
  const int32_t token = drawn[visit.row];
  p.path_row[place] = visit.row;
  p.emitted[place] = token;
  p.logprob[place] =
      token == kNoToken
          ? 0
          : best.softmax().LogProb(
                p.logits[static_cast<int64_t>(visit.row) * p.vocabulary +
                         token]);
}

absl::Status QueueReport(const SampleParams& params, const SampleScratch& in,
                         bool is_aligned, const Launch& on) {
  const unsigned parts = NumParts(params.num_valid_tokens);
  const unsigned rows = params.batch.rows.max;
  const absl::Status queued = LaunchDependent(
      "Sample", ReportPartsKernel,
      {.grid = dim3(parts, std::min<unsigned>(rows, kReportRows)),
       .block = kPartThreads},
      on, params, in.visited, in.parts, is_aligned);
  if (!queued.ok()) return queued;
  const int most = std::min(params.num_valid_tokens, kMaxTopLogprobs);
  return LaunchDependent("Sample", ReportKernel,
                         {.grid = rows,
                          .block = 32,
                          .shared_bytes = RowBest::SharedBytes(parts, most)},
                         on, params, in.drawn, in.visited, in.parts);
}

}  // namespace

size_t SampleScratchBytes(const SampleParams& params) {
  return SampleScratch::Bytes(params.batch.rows.max, params.num_valid_tokens);
}

absl::Status Sample(const SampleParams& params, void* scratch,
                    const Launch& on) {
  const int num_tokens = params.num_valid_tokens;
  const unsigned rows = params.batch.rows.max;
  const unsigned parts = NumParts(num_tokens);
  if (parts > kMaxParts) {
    return absl::UnimplementedError(
        absl::StrCat("Sample: ", num_tokens, " tokens; up to ",
                     kMaxParts * kPartTokens, " are compiled"));
  }
  const auto in = SampleScratch::In(scratch, params.batch.rows.max, num_tokens);
  const bool is_aligned = IsAligned(params.logits, params.vocabulary);
  const size_t touched_bytes = RowLogits::TouchedBytes(num_tokens);
  absl::Status status =
      ToStatus(cudaFuncSetAttribute(DrawKernel,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(touched_bytes)),
               "shared memory of Sample");
  const int share = PartsPerBlock(params.batch.rows.max);
  const unsigned blocks = (parts + share - 1) / share;
  status.Update(LaunchDependent(
      "Sample", ScanKernel, {.grid = dim3(blocks, rows), .block = kPartThreads},
      on, params, in.groups, is_aligned, share));
  status.Update(LaunchDependent(
      "Sample", DrawKernel,
      {.grid = rows, .block = kDrawThreads, .shared_bytes = touched_bytes}, on,
      params, in.groups, is_aligned, in.drawn));
  status.Update(LaunchDependent("Sample", WalkKernel,
                                {.grid = 1, .block = kWalkThreads}, on, params,
                                in.drawn, in.visited));
  status.Update(QueueReport(params, in, is_aligned, on));
  return status;
}

}  // namespace bole::cuda
