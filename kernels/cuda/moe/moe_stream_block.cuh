// How the threads of a block that streams a mixture's weights share its work.
//
// A job is a product of some rows of weights, over all their columns, with up
// to kGroupEntries rows of x; one warp does it. The columns come in chunks, a
// stage each, which other warps copy to shared memory (moe_weight_ring.cuh).
// Jobs of different warps take turns, so that all warps are at work.
#ifndef BOLE_KERNELS_CUDA_MOE_MOE_STREAM_BLOCK_CUH_
#define BOLE_KERNELS_CUDA_MOE_MOE_STREAM_BLOCK_CUH_

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/moe/moe_lanes.cuh"

namespace bole::cuda::moe {

inline constexpr int kProductWarps = 8;
inline constexpr int kProductThreads = 32 * kProductWarps;
inline constexpr int kCopyWarps = 2;  // They follow the product warps.
inline constexpr int kStreamWarps = kProductWarps + kCopyWarps;
inline constexpr int kStreamThreads = 32 * kStreamWarps;

// The rows of x in a job are those of up to kGroupBlocks products, 8 in each.
inline constexpr int kGroupBlocks = 2;
inline constexpr int kGroupEntries = 8 * kGroupBlocks;

// A stage has sets of 8 rows of weights: each lane multiplies one row of a set.
inline constexpr int kSetRows = 8;
// A warp loads the operands of an item, so many spans of x, together; a chunk
// of columns has some items.
inline constexpr int kItemSpans = 4;
inline constexpr int kItemColumns = kItemSpans * kSpanColumns;
inline constexpr int kItemsOfChunk = 2;
inline constexpr int kChunkColumns = kItemsOfChunk * kItemColumns;

__device__ inline bool IsCopyingWarp() { return Warp() >= kProductWarps; }
// Threads of the copying warps that copy a row together, and which row of a set
// it is.
inline constexpr int kCopiersOfRow = 32 * kCopyWarps / kSetRows;
__device__ inline int CopiedRow() {
  return (static_cast<int>(threadIdx.x) - kProductThreads) / kCopiersOfRow;
}

// The pointer that another lane has.
__device__ inline const BFloat16* FromLane(const BFloat16* pointer, int lane) {
  return reinterpret_cast<const BFloat16*>(__shfl_sync(
      kAllLanes, reinterpret_cast<unsigned long long>(pointer), lane));
}

// Jobs with equally many columns. A batch has a job for each warp, as far as
// there are any. Its stages come chunk by chunk.
struct JobOrder {
  int first_stage;
  int first_warp;  // The warp that does the first job of each batch.
  int num_jobs;
  int chunks;

  __device__ int num_batches() const {
    return (num_jobs + kProductWarps - 1) / kProductWarps;
  }
  // `jobs` jobs with so many columns, behind these.
  __device__ JobOrder Next(int jobs, int columns) const {
    return {.first_stage = first_stage + num_jobs * chunks,
            .first_warp = (first_warp + num_jobs) % kProductWarps,
            .num_jobs = jobs,
            .chunks = columns / kChunkColumns};
  }
};

// Batch number `batch` of those. REQUIRES: there is one.
struct JobBatch {
  int first_job;
  int size;
  int first_stage;

  __device__ JobBatch(const JobOrder& order, int batch)
      : first_job(batch * kProductWarps),
        size(min(kProductWarps, order.num_jobs - first_job)),
        first_stage(order.first_stage + first_job * order.chunks) {}
};

// The stages of one job: that of its first chunk, and how far it is from there
// to the stage of the next chunk.
struct JobStages {
  int first;
  int step;
};

// Calls run(job, stages) for each job of this warp.
template <typename Run>
__device__ void ForEachJob(const JobOrder& order, const Run& run) {
  const int place = (Warp() - order.first_warp + kProductWarps) % kProductWarps;
  for (int i = 0; i < order.num_batches(); ++i) {
    const JobBatch batch(order, i);
    if (place >= batch.size) return;
    run(batch.first_job + place,
        JobStages{.first = batch.first_stage + place, .step = batch.size});
  }
}

}  // namespace bole::cuda::moe

#endif  // BOLE_KERNELS_CUDA_MOE_MOE_STREAM_BLOCK_CUH_
