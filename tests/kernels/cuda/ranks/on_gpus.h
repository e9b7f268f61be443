// Ranks on GPUs, for tests: threads of one process.
#ifndef BOLE_TESTS_KERNELS_CUDA_RANKS_ON_GPUS_H_
#define BOLE_TESTS_KERNELS_CUDA_RANKS_ON_GPUS_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda_runtime_api.h"
#include "gtest/gtest.h"
#include "kernels/collectives_kind.h"
#include "kernels/communicator.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/testing/matrices.h"
#include "tests/worker_service/ranks/on_ranks.h"

namespace bole::testing {

// Who loads a kernel waits until all that run on its GPU have ended, and so for
// that of a rank there that waits for it. Hence all are loaded at the start.
inline const bool kLoadsAllKernels =
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads yet.
    setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0) == 0;

// Nor may a rank's kernel wait in a queue behind another rank's: streams share
// queues where there are more of them.
inline const bool kHasManyQueues =
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads yet.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0) == 0;

inline int NumGpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// Waits for all ranks.
inline void Meet(Communicator& ranks) {
  EXPECT_TRUE(ranks.AllGather({}, {}).ok());
}

// Numbers of ranks to test with. Several may share a GPU, if none allocates or
// frees memory there while another one's kernel waits for it.
inline std::vector<int> RankCounts() {
  std::vector<int> counts = {2};
  for (int n = 3; n <= std::min(NumGpus(), 4); ++n) counts.push_back(n);
  return counts;
}

// What the ranks of a group have, to be compared.
class SameOnAllRanks {
 public:
  void Add(int key, const std::vector<float>& values) {
    const std::lock_guard lock(mutex_);
    if (static_cast<size_t>(key) >= values_.size()) values_.resize(key + 1);
    if (values_[key].empty()) values_[key] = values;
    EXPECT_TRUE(SameBits(values_[key], values)) << "of call " << key;
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<float>> values_;
};

struct GpuGroup {
  int num_ranks;
  ElementType type = ElementType::kBFloat16;
  CollectivesKind kind = CollectivesKind::kPush;
  std::chrono::milliseconds deadline{20000};
};

// Runs body(backend, ranks) for each rank, on the GPUs in turn.
inline void OnGpus(
    const GpuGroup& group,
    const std::function<void(cuda::CudaBackend&, Communicator&)>& body) {
  OnRanks(group.num_ranks, [&](std::unique_ptr<Communicator> communicator) {
    const std::shared_ptr<Communicator> ranks = std::move(communicator);
    auto backend =
        cuda::CudaBackend::Create(ranks->rank().index % NumGpus(), group.type,
                                  /*num_threads=*/1,
                                  {.ranks = ranks,
                                   .collectives = group.kind,
                                   .deadline = group.deadline});
    ASSERT_TRUE(backend.ok()) << backend.status();
    body(**backend, *ranks);
    // Nobody leaves while others still write to its memory.
    Meet(*ranks);
  });
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_CUDA_RANKS_ON_GPUS_H_
