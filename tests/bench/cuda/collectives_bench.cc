// What ranks on several GPUs of a host exchange, alone: the sum of their parts
// with residual and norm, and columns made whole rows, as graph replays.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/command_line.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "kernels/collectives.h"
#include "kernels/collectives_kind.h"
#include "kernels/communicator.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/ranks/push_collectives.h"
#include "kernels/cuda/ranks/reduce_form.h"
#include "nlohmann/json.hpp"
#include "tests/bench/cuda/gpu_bench.h"
#include "tests/worker_service/ranks/on_ranks.h"
#include "worker_service/model/device_arrays.h"

namespace bole::cuda {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  int ranks = 2;
  std::vector<std::string> kinds = {"push", "nccl"};
  std::vector<int> widths = {3072, 4096, 5120};
  std::vector<int> rows = {1, 2, 4, 8, 16, 32, 64, 128, 256, 1024};
  std::vector<int> gathered = {1, 8, 16, 64};
  int vocabulary = 248320;
  int replays = 20;
  std::string json;
  std::string commit;
};

// The form that a kind of exchange forces.
std::optional<ReduceForm> FormOf(const std::string& kind) {
  if (kind == "one-shot") return ReduceForm::kOneShot;
  if (kind == "two-shot") return ReduceForm::kTwoShot;
  return std::nullopt;
}

// One rank's measurements of a kind. If sums have a form that is forced, `end`
// has it, and they alone are measured; else it is null.
class Bench {
 public:
  Bench(CudaBackend& backend, cuda::PushCollectives* end, const Flags& flags,
        const std::string& kind)
      : backend_(backend),
        end_(end),
        flags_(flags),
        kind_(kind),
        arrays_(backend) {}

  absl::StatusOr<Json> Run() {
    for (const int width : flags_.widths) {
      for (const int rows : flags_.rows) {
        BOLE_RETURN_IF_ERROR(Reduce(rows, width));
      }
    }
    if (end_ != nullptr) return std::move(rows_);
    for (const int rows : flags_.gathered) BOLE_RETURN_IF_ERROR(Gather(rows));
    return std::move(rows_);
  }

 private:
  absl::Status Reduce(int rows, int width) {
    const int64_t size = int64_t{rows} * width;
    const AllReduceAddNormParams params = {
        .rows = {arrays_.Copy(std::vector<int32_t>{rows}, "rows"), rows},
        .width = width,
        .epsilon = 1e-6f,
        .partial = arrays_.Activations(size, "partial sums"),
        .residual = arrays_.Activations(size, "residual"),
        .weight = arrays_.Copy(std::vector<float>(width, 1.0f), "weights"),
        .out = arrays_.Activations(size, "out")};
    BOLE_RETURN_IF_ERROR(arrays_.status());
    constexpr int kCalls = 96;  // A step of the 122B has so many.
    BOLE_ASSIGN_OR_RETURN(const double us,
                          MedianMicroseconds(
                              backend_, kCalls,
                              [&](int) {
                                return end_ != nullptr
                                           ? end_->AllReduceAddNorm(
                                                 params, backend_.launch())
                                           : backend_.AllReduceAddNorm(params);
                              },
                              flags_.replays));
    Tell("sum", rows, width, int64_t{2} * size, us);
    return absl::OkStatus();
  }

  absl::Status Gather(int rows) {
    const int ranks = backend_.rank().count;
    constexpr int kGroup = 512;
    const int groups = flags_.vocabulary / kGroup;
    std::vector<int> widths;
    widths.reserve(static_cast<size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
      widths.push_back((groups / ranks + (r < groups % ranks ? 1 : 0)) *
                       kGroup);
    }
    const AllGatherParams params = {
        .rows = {arrays_.Copy(std::vector<int32_t>{rows}, "rows"), rows},
        .widths = widths,
        .values =
            arrays_.Array<float>(int64_t{rows} * groups * kGroup, "logits")};
    BOLE_RETURN_IF_ERROR(arrays_.status());
    constexpr int kCalls = 8;
    BOLE_ASSIGN_OR_RETURN(
        const double us,
        MedianMicroseconds(
            backend_, kCalls, [&](int) { return backend_.AllGather(params); },
            flags_.replays));
    Tell("gather", rows, groups * kGroup, int64_t{4} * rows * groups * kGroup,
         us);
    return absl::OkStatus();
  }

  void Tell(const char* what, int rows, int width, int64_t bytes, double us) {
    if (backend_.rank().index > 0) return;
    std::printf("%d ranks  %-8s  %-6s %4d rows of %6d  %9.1f KB  %8.2f us\n",
                backend_.rank().count, kind_.c_str(), what, rows, width,
                static_cast<double>(bytes) / 1024, us);
    std::fflush(stdout);
    rows_.push_back({{"ranks", backend_.rank().count},
                     {"kind", kind_},
                     {"what", what},
                     {"rows", rows},
                     {"width", width},
                     {"bytes", bytes},
                     {"us", us}});
  }

  CudaBackend& backend_;
  cuda::PushCollectives* const end_;
  const Flags& flags_;
  const std::string kind_;
  DeviceArrays arrays_;
  Json rows_ = Json::array();
};

// Rank r on GPU r.
absl::StatusOr<std::unique_ptr<CudaBackend>> BackendOf(
    std::shared_ptr<Communicator> ranks, const std::string& kind) {
  const int device = ranks->rank().index;
  return CudaBackend::Create(
      device, ElementType::kBFloat16,
      /*num_threads=*/1,
      {.ranks = std::move(ranks),
       .collectives =
           kind == "nccl" ? CollectivesKind::kNccl : CollectivesKind::kPush});
}

absl::Status Run(const Flags& flags, const std::string& command) {
  Mutex mutex;
  absl::Status failed;
  Json all = Json::array();
  std::string gpu;
  const auto run = [&](const std::string& kind,
                       const std::shared_ptr<Communicator>& ranks) {
    const auto measure = [&]() -> absl::Status {
      BOLE_ASSIGN_OR_RETURN(const auto backend, BackendOf(ranks, kind));
      std::unique_ptr<cuda::PushCollectives> end;
      if (const std::optional<ReduceForm> form = FormOf(kind)) {
        BOLE_ASSIGN_OR_RETURN(
            end, cuda::PushCollectives::Create(ranks->rank().index,
                                               std::chrono::seconds(5), *ranks,
                                               backend->launch()));
        end->set_reduce_form(form);
      }
      Bench bench(*backend, end.get(), flags, kind);
      BOLE_ASSIGN_OR_RETURN(const Json rows, bench.Run());
      // Nobody leaves while others still write to its memory.
      BOLE_RETURN_IF_ERROR(ranks->AllGather({}, {}));
      if (backend->rank().index > 0) return absl::OkStatus();
      gpu = backend->description();
      all.insert(all.end(), rows.begin(), rows.end());
      return WriteReport(flags.json, *backend, command, flags.commit, all);
    };
    const absl::Status status = measure();
    if (status.ok()) return;
    ranks->Abort(status);
    const MutexLock lock(mutex);
    failed.Update(status);
  };
  for (const std::string& kind : flags.kinds) {
    testing::OnRanks(flags.ranks, [&](std::unique_ptr<Communicator> own) {
      run(kind, std::move(own));
    });
  }
  return failed;
}

}  // namespace
}  // namespace bole::cuda

int main(int argc, char** argv) {
  bole::cuda::Flags flags;
  bole::CommandLine app(
      "collectives_bench",
      "Times what ranks on several GPUs exchange, alone: medians of graph "
      "replays of 96 calls, ranks being threads of this process. Rank r is on "
      "GPU r.");
  app.Add("--ranks", flags.ranks, "GPUs").Range(2, 8);
  app.Add("--kinds", flags.kinds,
          "how they exchange; one-shot and two-shot are push with sums in that "
          "form alone")
      .OneOf({"push", "nccl", "one-shot", "two-shot"});
  app.Add("--widths", flags.widths, "of rows that are summed");
  app.Add("--rows", flags.rows, "that are summed");
  app.Add("--gathered", flags.gathered, "rows of logits, cut by the ranks");
  bole::cuda::AddReportFlags(flags.replays, flags.json, flags.commit, app);
  if (const std::optional<int> done = app.Parse(argc, argv)) return *done;
  return bole::cuda::ExitCode(bole::cuda::Run(
      flags, bole::cuda::CommandLine("collectives_bench", argc, argv)));
}
