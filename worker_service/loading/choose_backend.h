// Which machine runs the model.
#ifndef BOLE_WORKER_SERVICE_LOADING_CHOOSE_BACKEND_H_
#define BOLE_WORKER_SERVICE_LOADING_CHOOSE_BACKEND_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/command_line.h"
#include "kernels/backend.h"
#include "kernels/collectives_kind.h"
#include "kernels/communicator.h"

namespace bole {

// Makes the backend of this name:
//   cpu            num_threads threads, float32
//   cuda, cuda:N   GPU 0 or N, bfloat16; "cuda:N:float32" for comparisons
//   cuda:2,3       a GPU for each rank
//   auto           a GPU if one can be used, else the CPU
// With `ranks` the backend is that of one rank, and rank r of "cuda:N" is on
// GPU N + r. GPUs exchange data by `collectives`, and all ranks must be made at
// the same time.
// REQUIRES: with `ranks`, `device` is not "auto", which ranks might resolve
// differently.
//
// INVALID_ARGUMENT for another name, or a list of GPUs for another number of
// ranks; UNAVAILABLE for a GPU that cannot be used, saying why: no driver, no
// such device, none that the other ranks can reach, or a build without CUDA.
absl::StatusOr<std::unique_ptr<Backend>> ChooseBackend(
    const std::string& device, int num_threads,
    std::shared_ptr<Communicator> ranks = nullptr,
    CollectivesKind collectives = CollectivesKind::kPush);

// Replaces "auto" by the device that it stands for on this machine, and returns
// other names as they are. COST: briefly uses a GPU, if there is one.
absl::StatusOr<std::string> ResolveDevice(const std::string& device);

// Adds --collectives, which sets `kind`; its current value is the default.
void AddCollectivesFlag(CommandLine& command, CollectivesKind& kind);

// REQUIRES: `device` is not "auto".
bool IsGpu(const std::string& device);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_LOADING_CHOOSE_BACKEND_H_
