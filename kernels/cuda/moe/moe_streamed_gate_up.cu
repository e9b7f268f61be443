// inner = silu(gate x) * up x of the chosen experts, streamed.
//
// A job is 8 columns of inner for a group, their gates beside their ups. The
// jobs of all groups are divided evenly between the blocks; those of the shared
// expert's first group by themselves, whose weights a block asks for before the
// choice is known.
#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/moe/moe_choice.cuh"
#include "kernels/cuda/moe/moe_job.cuh"
#include "kernels/cuda/moe/moe_stream_block.cuh"
#include "kernels/cuda/moe/moe_stream_launch.cuh"
#include "kernels/cuda/moe/moe_streamed.h"
#include "kernels/cuda/moe/moe_weight_ring.cuh"

namespace bole::cuda {
namespace moe {
namespace {

constexpr int kStages = 10;

using Ring = WeightRing<2, kStages>;

#if __CUDA_ARCH__ >= 900

// A block's jobs of groups that are neighbours and equally wide.
struct TileJobs {
  JobOrder order;
  int first_group;
  int first_tile;  // The block's first job, of all of those.
  int width;

  __device__ int group(int job) const {
    return first_group + (first_tile + job) / (width / kSetRows);
  }
  // The first column of inner.
  __device__ int column(int job) const {
    return (first_tile + job) % (width / kSetRows) * kSetRows;
  }
};

// The jobs of `groups` groups from `first_group` on, behind others. Each time
// another end of the grid has the odd ones.
__device__ TileJobs Behind(const TileJobs& last, int first_group, int groups,
                           int width, int hidden, bool from_end) {
  const int64_t tiles = static_cast<int64_t>(groups) * (width / kSetRows);
  const int blocks = static_cast<int>(gridDim.x);
  const int block = static_cast<int>(blockIdx.x);
  const auto bound = [&](int next) {
    return static_cast<int>((block + next) * tiles / blocks);
  };
  // As the floors of the bounds, or as their ceilings.
  const auto end_bound = [&](int next) {
    return static_cast<int>(tiles) -
           static_cast<int>((blocks - block - next) * tiles / blocks);
  };
  const int first = from_end ? end_bound(0) : bound(0);
  const int end = from_end ? end_bound(1) : bound(1);
  return {.order = last.order.Next(end - first, hidden),
          .first_group = first_group,
          .first_tile = first,
          .width = width};
}

// The jobs that are known before the choice.
__device__ TileJobs SharedJobs(const MoeTask& t) {
  return Behind(TileJobs{}, 0, 1, t.experts.shared_width, t.experts.hidden,
                false);
}

// All others, one list after the other.
template <typename Visit>
__device__ void VisitOthers(const MoeTask& t, const MoeChoice& choice,
                            const TileJobs& shared, const Visit& visit) {
  const TileJobs routed = Behind(shared, 1, choice.num_routed(),
                                 t.experts.width, t.experts.hidden, true);
  visit(routed);
  visit(Behind(routed, 1 + choice.num_routed(), choice.num_more(),
               t.experts.shared_width, t.experts.hidden, false));
}

// By the copying warps: requests stages from `begin` to `end`, counted from the
// first of these jobs.
__device__ void CopyStages(const MoeTask& t, const MoeChoice& choice,
                           const TileJobs& jobs, const Ring& ring, int begin,
                           int end) {
  const int hidden = t.experts.hidden;
  const int64_t row_offset = static_cast<int64_t>(CopiedRow()) * hidden;
  const int64_t to_up = static_cast<int64_t>(jobs.width) * hidden;
  int stage = 0;
  for (int i = 0; i < jobs.order.num_batches(); ++i) {
    const JobBatch batch(jobs.order, i);
    // Where each job's gates begin, in its lane.
    const int own = batch.first_job + min(Lane(), batch.size - 1);
    const BFloat16* const begin_of_own =
        choice.group(jobs.group(own)).weights +
        static_cast<int64_t>(jobs.column(own)) * hidden;
    for (int column = 0; column < hidden; column += kChunkColumns) {
      for (int job = 0; job < batch.size; ++job, ++stage) {
        if (stage < begin) continue;
        if (stage == end) return;
        const BFloat16* gate =
            FromLane(begin_of_own, job) + row_offset + column;
        ring.Copy(jobs.order.first_stage + stage, {gate, gate + to_up});
      }
    }
  }
}

// One job of up to 8 kBlocks entries.
template <int kBlocks>
__device__ void RunTile(const MoeTask& t, const MoeChoice& choice,
                        const TileJobs& jobs, int job, const JobStages& stages,
                        Ring& ring) {
  const int hidden = t.experts.hidden;
  const StreamGroup& group = choice.group(jobs.group(job));
  // An entry that is not there has the operands of another one.
  const BFloat16* rows[kBlocks];
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    const int slot = min(8 * b + Lane() / 4, group.count - 1);
    rows[b] = As<BFloat16>(t.x) +
              static_cast<int64_t>(choice.row(group.first + slot)) * hidden +
              Lane() % 4 * kVector;
  }
  float sum[kBlocks][1][4];
  RunJob(ring, stages, rows, hidden, sum);
  const int max_width = t.experts.max_width();
  auto* inner = reinterpret_cast<BFloat16*>(t.scratch.inner) +
                static_cast<int64_t>(group.first) * max_width +
                jobs.column(job) + Lane() / 4;
#pragma unroll
  for (int i = 0; i < 2 * kBlocks; ++i) {
    const int slot = i / 2 * 8 + Lane() % 4 * 2 + i % 2;
    if (slot >= group.count) continue;
    const float(&of)[4] = sum[i / 2][0];
    inner[static_cast<int64_t>(slot) * max_width] =
        FromFloat<BFloat16>(Silu(of[i % 2]) * of[2 + i % 2]);
  }
}

// By a multiplying warp: its jobs.
__device__ void RunJobs(const MoeTask& t, const MoeChoice& choice,
                        const TileJobs& jobs, Ring& ring) {
  ForEachJob(jobs.order, [&](int job, const JobStages& stages) {
    if (choice.group(jobs.group(job)).count <= 8) {
      RunTile<1>(t, choice, jobs, job, stages, ring);
    } else {
      RunTile<2>(t, choice, jobs, job, stages, ring);
    }
  });
}

#endif

// Grid: any number of blocks.
__global__ void __launch_bounds__(kStreamThreads, 2)
    StreamedGateUpKernel(const __grid_constant__ MoeTask t) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(16) unsigned char memory[];
  Ring ring(memory);
  MoeChoice choice(t, memory + Ring::kBytes);
  if (threadIdx.x == 0) ring.Init();
  choice.Clear(t, t.experts.gate_ups);
  const TileJobs shared = SharedJobs(t);
  if (IsCopyingWarp()) CopyStages(t, choice, shared, ring, 0, kStages);

  // The kernel behind reads the logits before this one has ended: none of its
  // blocks may start before they can be read.
  WaitForPrevious();
  StartNext();
  const int num_rows = *t.rows.count;
  if (num_rows == 0) {
    if (IsCopyingWarp()) WaitForUnits();
    return;
  }
  choice.Find(t, num_rows);
  if (IsCopyingWarp()) {
    constexpr int kAll = INT_MAX;
    CopyStages(t, choice, shared, ring, kStages, kAll);
    VisitOthers(t, choice, shared, [&](const TileJobs& jobs) {
      CopyStages(t, choice, jobs, ring, 0, kAll);
    });
    WaitForUnits();
    return;
  }
  RunJobs(t, choice, shared, ring);
  VisitOthers(t, choice, shared,
              [&](const TileJobs& jobs) { RunJobs(t, choice, jobs, ring); });
#endif
}

}  // namespace

int StreamedGateUpBytes(const MoeTask& task) {
  const int bytes = Ring::kBytes + MoeChoice::Bytes(task);
  return bytes < kMoreThanHalf ? kMoreThanHalf : bytes;
}

}  // namespace moe

absl::Status LaunchStreamedMoeGateUp(const MoeTask& task, const Launch& on) {
  return moe::LaunchStreamed("Moe, gate and up", moe::StreamedGateUpKernel,
                             moe::StreamedGateUpBytes(task), task, on);
}

}  // namespace bole::cuda
