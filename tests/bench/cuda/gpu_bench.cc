#include "tests/bench/cuda/gpu_bench.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "cuda_runtime_api.h"
#include "kernels/cuda/check.h"
#include "nlohmann/json.hpp"

namespace bole::cuda {
namespace {

constexpr int64_t kDistinct = 4 << 20;

// The upper half of a float's bits: rounded towards zero, which will do here.
uint16_t Truncated(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return static_cast<uint16_t>(bits >> 16);
}

template <typename T, typename Make>
absl::StatusOr<DeviceMemory> Random(CudaBackend& backend, int64_t count,
                                    const Make& make) {
  BOLE_ASSIGN_OR_RETURN(
      DeviceMemory memory,
      backend.Allocate(count * sizeof(T), "operands of a benchmark"));
  std::vector<T> host(std::min(count, kDistinct));
  for (T& x : host) x = make();
  T* device = static_cast<T*>(memory.get());
  for (int64_t done = 0; done < count; done += kDistinct) {
    const int64_t part = std::min(count - done, kDistinct);
    BOLE_RETURN_IF_ERROR(
        ToStatus(cudaMemcpy(device + done, host.data(), part * sizeof(T),
                            cudaMemcpyHostToDevice),
                 "operands of a benchmark"));
  }
  return memory;
}

// A captured graph, ready to launch.
struct Graph {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ~Graph() {
    if (exec != nullptr) cudaGraphExecDestroy(exec);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
};

absl::Status Capture(cudaStream_t stream, int calls,
                     const std::function<absl::Status(int)>& queue,
                     Graph& graph) {
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "capture"));
  absl::Status queued;
  for (int i = 0; i < calls && queued.ok(); ++i) queued = queue(i);
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph.graph);
  BOLE_RETURN_IF_ERROR(queued);
  BOLE_RETURN_IF_ERROR(ToStatus(ended, "end of the capture"));
  return ToStatus(cudaGraphInstantiate(&graph.exec, graph.graph, 0),
                  "instantiation of a graph");
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

// The median time of one run, in microseconds.
absl::StatusOr<double> MedianOfRepeats(
    cudaStream_t stream, int repeats,
    const std::function<absl::Status()>& queue) {
  constexpr int kWarmUp = 3;
  cudaEvent_t start;
  cudaEvent_t end;
  BOLE_RETURN_IF_ERROR(ToStatus(cudaEventCreate(&start), "event"));
  BOLE_RETURN_IF_ERROR(ToStatus(cudaEventCreate(&end), "event"));
  std::vector<double> times;
  absl::Status status;
  for (int i = 0; i < kWarmUp + repeats && status.ok(); ++i) {
    float milliseconds = 0;
    cudaEventRecord(start, stream);
    status = queue();
    cudaEventRecord(end, stream);
    status.Update(ToStatus(cudaEventSynchronize(end), "what was timed"));
    cudaEventElapsedTime(&milliseconds, start, end);
    if (i >= kWarmUp) times.push_back(1e3 * milliseconds);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  BOLE_RETURN_IF_ERROR(status);
  return Median(std::move(times));
}

}  // namespace

absl::StatusOr<DeviceMemory> RandomActivations(CudaBackend& backend,
                                               int64_t count, float deviation,
                                               uint64_t seed) {
  if (backend.activation_type() == ElementType::kFloat32) {
    return RandomFloats(backend, count, deviation, seed);
  }
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  return Random<uint16_t>(backend, count,
                          [&] { return Truncated(normal(random)); });
}

absl::StatusOr<DeviceMemory> RandomFloats(CudaBackend& backend, int64_t count,
                                          float deviation, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  return Random<float>(backend, count, [&] { return normal(random); });
}

absl::StatusOr<double> MedianMicroseconds(
    const CudaBackend& backend, int calls,
    const std::function<absl::Status(int)>& queue, int replays) {
  const cudaStream_t stream = backend.stream();
  BOLE_RETURN_IF_ERROR(queue(0));
  BOLE_RETURN_IF_ERROR(ToStatus(cudaStreamSynchronize(stream), "first call"));
  Graph graph;
  BOLE_RETURN_IF_ERROR(Capture(stream, calls, queue, graph));
  BOLE_ASSIGN_OR_RETURN(
      const double microseconds, MedianOfRepeats(stream, replays, [&] {
        return ToStatus(cudaGraphLaunch(graph.exec, stream), "graph");
      }));
  return microseconds / calls;
}

// Not as a graph: the copies of a graph may go by a slower way.
absl::StatusOr<double> CopyBandwidth(CudaBackend& backend) {
  constexpr int64_t kBytes = int64_t{4} << 30;
  BOLE_ASSIGN_OR_RETURN(const DeviceMemory from,
                        backend.Allocate(kBytes, "a copy"));
  BOLE_ASSIGN_OR_RETURN(const DeviceMemory to,
                        backend.Allocate(kBytes, "a copy"));
  BOLE_ASSIGN_OR_RETURN(
      const double microseconds,
      MedianOfRepeats(backend.stream(), /*repeats=*/10, [&] {
        return ToStatus(
            cudaMemcpyAsync(to.get(), from.get(), kBytes,
                            cudaMemcpyDeviceToDevice, backend.stream()),
            "copy");
      }));
  return 2.0 * kBytes / microseconds * 1e6;
}

absl::Status WriteReport(const std::string& file, const CudaBackend& backend,
                         const std::string& command, const std::string& commit,
                         const nlohmann::ordered_json& rows) {
  if (file.empty()) return absl::OkStatus();
  const nlohmann::ordered_json report = {{"gpu", backend.description()},
                                         {"command", command},
                                         {"commit", commit},
                                         {"rows", rows}};
  std::ofstream out(file);
  out << report.dump(1) << "\n";
  out.close();
  if (out) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", file));
}

void AddReportFlags(int& replays, std::string& json, std::string& commit,
                    bole::CommandLine& app) {
  app.Add("--replays", replays, "of each graph").Range(1, 1000);
  app.Add("--json", json, "file for the results");
  app.Add("--commit", commit, "of the tree, for the results");
}

std::string CommandLine(const std::string& name, int argc, char** argv) {
  std::string command = name;
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  return command;
}

int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace bole::cuda
