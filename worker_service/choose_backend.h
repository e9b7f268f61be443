// Which machine runs the model.
#ifndef BOLE_WORKER_SERVICE_CHOOSE_BACKEND_H_
#define BOLE_WORKER_SERVICE_CHOOSE_BACKEND_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace bole {

// A backend by its name:
//   cpu            num_threads threads, float32
//   cuda, cuda:N   GPU 0 or N, bfloat16; "cuda:N:float32" for comparisons
//   auto           a GPU if one can be used, else the CPU
// INVALID_ARGUMENT for another name, UNAVAILABLE for a GPU that cannot be used,
// saying why: no driver, no such device, or a build without CUDA.
absl::StatusOr<std::unique_ptr<Backend>> ChooseBackend(
    const std::string& device, int num_threads);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_CHOOSE_BACKEND_H_
