// out (+)= the sum over a row's experts of weight * down inner, streamed.
//
// A block has a few columns of out, the same of every chosen expert: a job is
// those of a group. The results stay in shared memory, where a row's experts
// are added in ascending order, the shared one last.
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

constexpr int kMaxSets = 4;  // A block has up to 8 columns of out in each.

#if __CUDA_ARCH__ >= 900

// The columns of out that a block has.
struct BlockColumns {
  int first;
  int count;

  __device__ explicit BlockColumns(int hidden) {
    const auto bound = [&](int next) {
      return static_cast<int>(static_cast<int64_t>(blockIdx.x + next) * hidden /
                              gridDim.x);
    };
    first = bound(0);
    count = bound(1) - first;
  }
};

// The groups from `first` on, all equally wide, each a job.
struct GroupJobs {
  JobOrder order;
  int first;
  int width;
};

// All groups, one list after the other.
template <typename Visit>
__device__ void VisitJobs(const MoeTask& t, const MoeChoice& choice,
                          const Visit& visit) {
  const int shared_width = t.experts.shared_width;
  const GroupJobs first = {.order = JobOrder{}.Next(1, shared_width),
                           .first = 0,
                           .width = shared_width};
  const GroupJobs routed = {
      .order = first.order.Next(choice.num_routed(), t.experts.width),
      .first = 1,
      .width = t.experts.width};
  visit(first);
  visit(routed);
  visit(GroupJobs{.order = routed.order.Next(choice.num_more(), shared_width),
                  .first = 1 + choice.num_routed(),
                  .width = shared_width});
}

// By the copying warps.
template <int kSets, int kStages>
__device__ void CopyStages(const MoeChoice& choice, const BlockColumns& columns,
                           const GroupJobs& jobs,
                           const WeightRing<kSets, kStages>& ring) {
  int stage = jobs.order.first_stage;
  for (int i = 0; i < jobs.order.num_batches(); ++i) {
    const JobBatch batch(jobs.order, i);
    // Where each job's weights begin, in its lane.
    const int own = batch.first_job + min(Lane(), batch.size - 1);
    const BFloat16* const begin_of_own =
        choice.group(jobs.first + own).weights +
        static_cast<int64_t>(columns.first) * jobs.width;
    for (int column = 0; column < jobs.width; column += kChunkColumns) {
      for (int job = 0; job < batch.size; ++job, ++stage) {
        const BFloat16* begin = FromLane(begin_of_own, job) + column;
        const BFloat16* rows[kSets];
#pragma unroll
        for (int s = 0; s < kSets; ++s) {
          const int row = s * kSetRows + CopiedRow();
          rows[s] = row < columns.count
                        ? begin + static_cast<int64_t>(row) * jobs.width
                        : nullptr;
        }
        ring.Copy(stage, rows);
      }
    }
  }
}

// One job of up to 8 kBlocks entries. results: [entries][8 kSets].
template <int kBlocks, int kSets, int kStages>
__device__ void RunGroup(const MoeTask& t, const StreamGroup& group, int width,
                         const JobStages& stages,
                         WeightRing<kSets, kStages>& ring, float* results) {
  // An entry that is not there has the operands of another one.
  const BFloat16* rows[kBlocks];
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    const int slot = min(8 * b + Lane() / 4, group.count - 1);
    rows[b] = reinterpret_cast<const BFloat16*>(t.scratch.inner) +
              static_cast<int64_t>(group.first + slot) * t.experts.max_width() +
              Lane() % 4 * kVector;
  }
  float sum[kBlocks][(kSets + 1) / 2][4];
  RunJob(ring, stages, rows, width, sum);
#pragma unroll
  for (int i = 0; i < 2 * kBlocks; ++i) {
    const int slot = i / 2 * 8 + Lane() % 4 * 2 + i % 2;
    if (slot >= group.count) continue;
    float* to = results + (group.first + slot) * kSets * kSetRows;
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      to[s * kSetRows + Lane() / 4] = sum[i / 2][s / 2][s % 2 * 2 + i % 2];
    }
  }
}

// By a multiplying warp: its jobs.
template <int kSets, int kStages>
__device__ void RunJobs(const MoeTask& t, const MoeChoice& choice,
                        const GroupJobs& jobs, WeightRing<kSets, kStages>& ring,
                        float* results) {
  ForEachJob(jobs.order, [&](int job, const JobStages& stages) {
    const StreamGroup& group = choice.group(jobs.first + job);
    if (group.count <= 8) {
      RunGroup<1>(t, group, jobs.width, stages, ring, results);
    } else {
      RunGroup<2>(t, group, jobs.width, stages, ring, results);
    }
  });
}

#endif

// Grid: any number of blocks of at most 8 kSets columns of out.
template <int kSets, int kStages>
__global__ void __launch_bounds__(kStreamThreads, 2)
    StreamedDownKernel(const __grid_constant__ MoeTask t) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(16) unsigned char memory[];
  // No block of the kernel ahead lets this one start before the kernels ahead
  // of that one have ended: logits, and out as it was, can be read.
  StartNext();
  const int num_rows = __ldcg(t.rows.count);
  if (num_rows == 0) {
    WaitForPrevious();
    return;
  }
  using Ring = WeightRing<kSets, kStages>;
  Ring ring(memory);
  MoeChoice choice(t, memory + Ring::kBytes);
  auto* results =
      reinterpret_cast<float*>(memory + Ring::kBytes + MoeChoice::Bytes(t));
  const BlockColumns columns(t.experts.hidden);
  if (threadIdx.x == 0) ring.Init();
  choice.Clear(t, t.experts.downs);
  choice.Find(t, num_rows);
  if (IsCopyingWarp()) {
    VisitJobs(t, choice, [&](const GroupJobs& jobs) {
      CopyStages(choice, columns, jobs, ring);
    });
    WaitForUnits();
    return;
  }
  const auto out = [&](int i) {
    return As<BFloat16>(t.out) +
           static_cast<int64_t>(i / columns.count) * t.experts.hidden +
           columns.first + i % columns.count;
  };
  const int num_sums = num_rows * columns.count;
  const int thread = static_cast<int>(threadIdx.x);
  const bool is_first_known = t.accumulate && thread < num_sums;
  const float known = is_first_known ? ToFloat(*out(thread)) : 0;
  WaitForPrevious();
  VisitJobs(t, choice, [&](const GroupJobs& jobs) {
    RunJobs(t, choice, jobs, ring, results);
  });
  SyncThreads(1, kProductThreads);
  for (int i = thread; i < num_sums; i += kProductThreads) {
    float sum = i == thread ? known : t.accumulate ? ToFloat(*out(i)) : 0;
#pragma unroll 4
    for (int place = 0; place < t.places(); ++place) {
      const int entry = choice.entry(t, i / columns.count, place);
      sum += choice.weight(entry) *
             results[entry * kSets * kSetRows + i % columns.count];
    }
    *out(i) = FromFloat<BFloat16>(sum);
  }
#endif
}

struct DownLaunch {
  void (*kernel)(MoeTask);
  int bytes;
};

// A ring of 80 KB: there is room for it beside the gates and ups while results
// are few.
template <int kSets>
DownLaunch LaunchWith(const MoeTask& task) {
  constexpr int kStages = 80 * 1024 / WeightRing<kSets, 1>::kBytes;
  const int entries = task.rows.max * task.places();
  return {StreamedDownKernel<kSets, kStages>,
          WeightRing<kSets, kStages>::kBytes + MoeChoice::Bytes(task) +
              entries * kSets * kSetRows * static_cast<int>(sizeof(float))};
}

int SetsOf(const MoeTask& task, const Launch& on) {
  const int blocks = on.multiprocessors;
  const int columns = (task.experts.hidden + blocks - 1) / blocks;
  return (columns + kSetRows - 1) / kSetRows;
}

// REQUIRES: at most kMaxSets.
DownLaunch LaunchOf(const MoeTask& task, const Launch& on) {
  switch (SetsOf(task, on)) {
    case 1:
      return LaunchWith<1>(task);
    case 2:
      return LaunchWith<2>(task);
    case 3:
      return LaunchWith<3>(task);
    default:
      return LaunchWith<kMaxSets>(task);
  }
}

}  // namespace
}  // namespace moe

bool CanStreamMoe(const MoeTask& task, const Launch& on) {
  const MoeExperts& m = task.experts;
  const auto fits = [](int columns) {
    return columns > 0 && columns % moe::kChunkColumns == 0;
  };
  return on.type == ElementType::kBFloat16 && on.is_hopper &&
         task.rows.max <= kMaxStreamedMoeRows &&
         m.num_experts <= kMaxStreamedMoeExperts &&
         task.experts_per_token <= kMaxStreamedMoeChoices && fits(m.hidden) &&
         fits(m.width) && fits(m.shared_width) &&
         moe::SetsOf(task, on) <= moe::kMaxSets &&
         moe::StreamedGateUpBytes(task) <= on.shared_bytes &&
         moe::LaunchOf(task, on).bytes <= on.shared_bytes;
}

absl::Status LaunchStreamedMoeDown(const MoeTask& task, const Launch& on) {
  const moe::DownLaunch launch = moe::LaunchOf(task, on);
  return moe::LaunchStreamed("Moe, down", launch.kernel, launch.bytes, task,
                             on);
}

}  // namespace bole::cuda
