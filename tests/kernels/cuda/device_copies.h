// What a host problem owns, on the GPU.
#ifndef BOLE_TESTS_KERNELS_CUDA_DEVICE_COPIES_H_
#define BOLE_TESTS_KERNELS_CUDA_DEVICE_COPIES_H_

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/row_batch.h"
#include "kernels/weight_store.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/random_forest.h"

namespace bole::testing {

// Copies of host buffers on the GPU, each between two guard zones. Fetch()
// brings the contents back into the buffers that they came from, for the
// reference's checks to read.
//
// The buffers must outlive it.
class DeviceCopies {
 public:
  explicit DeviceCopies(cuda::CudaBackend& backend) : backend_(backend) {}

  // As it is.
  template <typename T>
  T* Of(GuardedBuffer<T>& host) {
    return static_cast<T*>(Copy(host.data(), host.size() * sizeof(T)));
  }
  template <typename T>
  const T* Of(const std::vector<T>& host) {
    return static_cast<const T*>(
        Copy(const_cast<T*>(host.data()), host.size() * sizeof(T)));
  }

  // Floats as activations of the backend. The host's are rounded to what the
  // device has, so that the reference may compute with the same.
  Activation* Activations(GuardedBuffer<float>& host);

  // A batch with all that it points to.
  RowBatch Of(HostBatch& batch);

  // Waits for the GPU, and copies everything back. Fails the test if the work
  // failed or a guard zone was written.
  void Fetch();

 private:
  struct Zone {
    DeviceMemory memory;
    size_t bytes;
    std::function<void(const std::vector<unsigned char>&)> store;
  };

  void* Copy(void* host, size_t bytes);
  void* Place(const void* content, size_t bytes,
              std::function<void(const std::vector<unsigned char>&)> store);

  cuda::CudaBackend& backend_;
  std::vector<Zone> zones_;
};

// A matrix of the store from rows of floats.
const WeightMatrix* LoadRows(WeightStore& store, int rows, int columns,
                             std::span<const float> content);

// Rounds to bfloat16 and back, as the GPU stores activations.
float RoundedToBFloat16(float x);

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_CUDA_DEVICE_COPIES_H_
