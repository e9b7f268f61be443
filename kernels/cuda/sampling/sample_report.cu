// Reports the rows that were visited, by parts. Each rank scans its own columns
// and sends the results to the others.
#include "kernels/cuda/sampling/sample_report.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ranks/exchange.cuh"
#include "kernels/cuda/sampling/row_best.cuh"
#include "kernels/cuda/sampling/row_parts.cuh"
#include "kernels/cuda/sampling/sampled_logits.cuh"

namespace bole::cuda {
namespace {

constexpr int kReportRows = 16;  // Rows that have blocks of their own.

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

template <int kRanks>
__global__ void __launch_bounds__(kPartThreads)
    ReportPartsKernel(const __grid_constant__ SampleParams p,
                      const __grid_constant__ SampledLogits<kRanks> in,
                      const int32_t* drawn, const int32_t* visited,
                      int first_place, int num_places) {
  __shared__ PartShared<kMaxTopLogprobs> shared;
  WaitForPrevious();
  StartNext();
  const PartSender sender(in.cut.ranks, num_places, in.parts);
  const int part = blockIdx.x;
  const int to = static_cast<int>(threadIdx.x);
  const int end =
      min(first_place + num_places, p.path_first[p.batch.max_requests]);
  int place = first_place + static_cast<int>(blockIdx.y);
  if (part >= in.parts.own_parts) place = end;
  for (; place < end; place += gridDim.y) {
    const Visit visit(p, visited, place);
    const LogitRow logits =
        OwnRow(in.cut, visit.row, p.num_valid_tokens, in.are_aligned);
    float logit[kThreadTokens];
    logits.Load(GroupOf(part), logit);
    FindPartBest(logits, part, logit, visit.num_top, sender,
                 place - first_place, shared);
    const int token = drawn[visit.row] - in.parts.first_token;
    if (token / kPartTokens == part && token >= 0 &&
        token < logits.num_tokens && to < sender.num_ranks()) {
      sender.On(to).drawn[place - first_place] = logits.logits[token];
    }
  }
  EndSending(in.cut.ranks);
}

// Entry first_place + blockIdx.x of the paths: its row and token, and their
// probabilities.
template <int kRanks>
__global__ void __launch_bounds__(32)
    ReportKernel(const __grid_constant__ SampleParams p,
                 const __grid_constant__ SampledLogits<kRanks> in,
                 const int32_t* drawn, const int32_t* visited,
                 int first_place) {
  extern __shared__ Rank report_shared[];
  WaitForPrevious();
  StartNext();
  const auto parts =
      PartResults::In(AwaitResults(in.cut.ranks), gridDim.x, in.parts);
  const int place = first_place + static_cast<int>(blockIdx.x);
  if (place >= p.path_first[p.batch.max_requests]) return;
  const Visit visit(p, visited, place);
  const RowBest best(parts, blockIdx.x, visit.num_top, report_shared);
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
      token == kNoToken ? 0 : best.softmax().LogProb(parts.drawn[blockIdx.x]);
}

}  // namespace

template <int kRanks>
absl::Status QueueReport(const SampleParams& params,
                         const SampledLogits<kRanks>& in, int first_place,
                         int count, const int32_t* drawn,
                         const int32_t* visited, const Launch& on) {
  const unsigned parts = std::max(in.parts.own_parts, 1);
  const unsigned places = count;
  absl::Status status = LaunchDependent(
      "Sample", ReportPartsKernel<kRanks>,
      {.grid = dim3(parts, std::min<unsigned>(places, kReportRows)),
       .block = kPartThreads},
      on, params, in, drawn, visited, first_place, count);
  status.Update(LaunchDependent("Sample", ReportKernel<kRanks>,
                                {.grid = places,
                                 .block = 32,
                                 .shared_bytes = RowBest::SharedBytes(
                                     in.parts.num_parts, in.parts.max_k)},
                                on, params, in, drawn, visited, first_place));
  return status;
}

template absl::Status QueueReport(const SampleParams&, const SampledLogits<1>&,
                                  int, int, const int32_t*, const int32_t*,
                                  const Launch&);
template absl::Status QueueReport(const SampleParams&,
                                  const SampledLogits<kMaxPeers>&, int, int,
                                  const int32_t*, const int32_t*,
                                  const Launch&);

}  // namespace bole::cuda
