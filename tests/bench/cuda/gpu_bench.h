// What the GPU benchmarks share: random device memory, times of graph replays,
// and a report in JSON.
#ifndef BOLE_TESTS_BENCH_CUDA_GPU_BENCH_H_
#define BOLE_TESTS_BENCH_CUDA_GPU_BENCH_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/command_line.h"
#include "kernels/cuda/cuda_backend.h"
#include "nlohmann/json_fwd.hpp"

namespace bole::cuda {

// Elements of a normal distribution around 0. Beyond the first few million they
// repeat. They must be freed before the backend.
absl::StatusOr<DeviceMemory> RandomActivations(CudaBackend& backend,
                                               int64_t count, float deviation,
                                               uint64_t seed);
absl::StatusOr<DeviceMemory> RandomFloats(CudaBackend& backend, int64_t count,
                                          float deviation, uint64_t seed);

// Captures queue(0) .. queue(calls - 1) into one graph, and returns the median
// over `replays` of a replay's time divided by `calls`, in microseconds. To
// keep operands out of the cache, let call i work on buffer i of more than the
// L2 holds. queue(0) runs once before the capture, so that operators can choose
// algorithms and grow scratch.
absl::StatusOr<double> MedianMicroseconds(
    const CudaBackend& backend, int calls,
    const std::function<absl::Status(int)>& queue, int replays = 20);

// Bytes per second of a large copy on the device, read and written.
absl::StatusOr<double> CopyBandwidth(CudaBackend& backend);

// Writes {"gpu", "command", "commit", "rows"} to `file`; does nothing if `file`
// is empty. `commit` is given by who runs the benchmark.
absl::Status WriteReport(const std::string& file, const CudaBackend& backend,
                         const std::string& command, const std::string& commit,
                         const nlohmann::ordered_json& rows);

// --replays, --json and --commit.
void AddReportFlags(int& replays, std::string& json, std::string& commit,
                    bole::CommandLine& app);

// The name of a benchmark and its arguments, for its report.
std::string CommandLine(const std::string& name, int argc, char** argv);

// What main() returns; an error is printed.
int ExitCode(const absl::Status& status);

}  // namespace bole::cuda

#endif  // BOLE_TESTS_BENCH_CUDA_GPU_BENCH_H_
