// Which machine runs the model.
#ifndef BOLE_WORKER_SERVICE_CHOOSE_BACKEND_H_
#define BOLE_WORKER_SERVICE_CHOOSE_BACKEND_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"

namespace bole {

// A backend by its name:
//   cpu            num_threads threads, float32
//   cuda, cuda:N   GPU 0 or N, bfloat16; "cuda:N:float32" for comparisons
//   auto           a GPU if one can be used, else the CPU
// With `ranks` it is that of a rank: rank r of "cuda:N" would be on GPU N + r.
// REQUIRES: `device` is not "auto" then, which each rank might take for
// another.
//
// INVALID_ARGUMENT for another name, UNAVAILABLE for a GPU that cannot be used,
// saying why: no driver, no such device, or a build without CUDA. UNIMPLEMENTED
// for a rank of several on a GPU.
absl::StatusOr<std::unique_ptr<Backend>> ChooseBackend(
    const std::string& device, int num_threads,
    std::shared_ptr<Communicator> ranks = nullptr);

// What "auto" stands for on this machine; another name is itself. COST: that of
// using a GPU for a moment, if there is one.
absl::StatusOr<std::string> ResolveDevice(const std::string& device);

// REQUIRES: `device` is not "auto".
bool IsGpu(const std::string& device);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_CHOOSE_BACKEND_H_
