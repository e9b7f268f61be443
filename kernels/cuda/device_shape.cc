#include "kernels/cuda/device_shape.h"

#include "common/status_macros.h"
#include "cuda_runtime_api.h"
#include "kernels/cuda/check.h"

namespace bole::cuda {

absl::StatusOr<DeviceShape> CurrentDeviceShape() {
  int device = 0;
  DeviceShape shape = {};
  BOLE_RETURN_IF_ERROR(ToStatus(cudaGetDevice(&device), "current device"));
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaDeviceGetAttribute(&shape.multiprocessors,
                                      cudaDevAttrMultiProcessorCount, device),
               "multiprocessors"));
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaDeviceGetAttribute(
                   &shape.major, cudaDevAttrComputeCapabilityMajor, device),
               "compute capability"));
  return shape;
}

}  // namespace bole::cuda
