// The properties of the GPU that launch plans depend on.
#ifndef BOLE_KERNELS_CUDA_DEVICE_SHAPE_H_
#define BOLE_KERNELS_CUDA_DEVICE_SHAPE_H_

#include "absl/status/statusor.h"

namespace bole::cuda {

struct DeviceShape {
  int multiprocessors;
  int major;  // The major number of the compute capability.

  // Only Hopper has wgmma; later generations do not have it.
  bool is_hopper() const { return major == 9; }
};

// The shape of the current device.
absl::StatusOr<DeviceShape> CurrentDeviceShape();

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_DEVICE_SHAPE_H_
