// What plans of launches must know of the GPU.
#ifndef BOLE_KERNELS_CUDA_DEVICE_SHAPE_H_
#define BOLE_KERNELS_CUDA_DEVICE_SHAPE_H_

#include "absl/status/statusor.h"

namespace bole::cuda {

struct DeviceShape {
  int multiprocessors;
  int major;  // The major number of the compute capability.

  // With wgmma, which later generations do not have.
  bool is_hopper() const { return major == 9; }
};

// The shape of the current device.
absl::StatusOr<DeviceShape> CurrentDeviceShape();

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_DEVICE_SHAPE_H_
