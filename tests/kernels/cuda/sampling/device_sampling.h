// A SampleBatch on the GPU.
#ifndef BOLE_TESTS_KERNELS_CUDA_SAMPLING_DEVICE_SAMPLING_H_
#define BOLE_TESTS_KERNELS_CUDA_SAMPLING_DEVICE_SAMPLING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/row_batch.h"
#include "kernels/sampling.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/reference/sample_batch.h"

namespace bole::testing {

// Copies of all that a SampleBatch points to, each between two guard zones.
// Fetch() brings outputs and counts back to where they came from.
//
// Batches and counts must outlive it.
class DeviceSampling {
 public:
  explicit DeviceSampling(cuda::CudaBackend& backend) : copies_(backend) {}

  // counts: what the batch was made with.
  SampleParams Of(SampleBatch& batch, std::vector<int32_t>& counts);
  // host: of a batch, with any path.
  CountTokensParams Of(const CountTokensParams& host,
                       std::vector<int32_t>& counts);

  // Waits for the GPU. Fails the test as DeviceCopies::Fetch() does.
  void Fetch() { copies_.Fetch(); }

 private:
  RowBatch Of(const RowBatch& host);

  template <typename T>
  const T* Input(const T* host, size_t size) {
    auto kept = std::make_shared<std::vector<T>>(host, host + size);
    inputs_.push_back(kept);
    return copies_.Of(*kept);
  }
  template <typename T>
  T* Output(std::vector<T>& host) {
    return const_cast<T*>(copies_.Of(host));
  }

  DeviceCopies copies_;
  std::vector<std::shared_ptr<void>> inputs_;  // What Fetch() writes to.
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_CUDA_SAMPLING_DEVICE_SAMPLING_H_
