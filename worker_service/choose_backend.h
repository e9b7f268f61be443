// Which machine runs the model.
#ifndef BOLE_WORKER_SERVICE_CHOOSE_BACKEND_H_
#define BOLE_WORKER_SERVICE_CHOOSE_BACKEND_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/command_line.h"
#include "kernels/backend.h"
#include "kernels/collectives_kind.h"
#include "kernels/communicator.h"

namespace bole {

// A backend by its name:
//   cpu            num_threads threads, float32
//   cuda, cuda:N   GPU 0 or N, bfloat16; "cuda:N:float32" for comparisons
//   cuda:2,3       a GPU for each rank
//   auto           a GPU if one can be used, else the CPU
// With `ranks` it is that of a rank, and rank r of "cuda:N" is on GPU N + r;
// GPUs exchange by `collectives`, and all ranks are made at the same time.
// REQUIRES: `device` is not "auto" then, which each rank might take for
// another.
//
// INVALID_ARGUMENT for another name, or a list of GPUs for another number of
// ranks; UNAVAILABLE for a GPU that cannot be used, saying why: no driver, no
// such device, none that the other ranks can reach, or a build without CUDA.
absl::StatusOr<std::unique_ptr<Backend>> ChooseBackend(
    const std::string& device, int num_threads,
    std::shared_ptr<Communicator> ranks = nullptr,
    CollectivesKind collectives = CollectivesKind::kPush);

// What "auto" stands for on this machine; another name is itself. COST: that of
// using a GPU for a moment, if there is one.
absl::StatusOr<std::string> ResolveDevice(const std::string& device);

// Adds --collectives, which sets `kind`; what it holds is the default.
void AddCollectivesFlag(CommandLine& command, CollectivesKind& kind);

// REQUIRES: `device` is not "auto".
bool IsGpu(const std::string& device);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_CHOOSE_BACKEND_H_
