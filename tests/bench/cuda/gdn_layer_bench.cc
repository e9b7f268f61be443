// The operators of a linear layer on the GPU: front, decode, windows, gated
// norm, prefill, and layers in one launch, beside the least that their bytes
// take and the plain versions. Of tree verification gdn_verify_bench has more.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/command_line.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/gdn/gdn_plain.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/prefill/gdn_chunks.h"
#include "kernels/gdn.h"
#include "nlohmann/json.hpp"
#include "tests/bench/cuda/gdn_rows.h"
#include "tests/bench/cuda/gpu_bench.h"

namespace bole::cuda {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::vector<std::string> shapes = {"4B", "27B", "122B"};
  std::vector<int> batches = {1, 4, 8, 16};
  std::vector<int> nodes = {1, 64};
  std::vector<int> prefill = {512, 2048, 8192};
  int replays = 20;
  std::string json;
  std::string commit;
};

GdnShape ShapeOf(const std::string& name) {
  const int value_heads = name == "4B" ? 32 : name == "27B" ? 48 : 64;
  return {.key_heads = 16,
          .value_heads = value_heads,
          .key_dim = 128,
          .value_dim = 128,
          .conv_taps = 4};
}

// What is timed: call(layer) queues it once.
struct Operator {
  const char* name;
  int64_t bytes;  // 0: no floor is reported.
  std::function<absl::Status(int layer)> call;
};

class Bench {
 public:
  static absl::StatusOr<Json> Run(CudaBackend& backend, const Flags& flags) {
    BOLE_ASSIGN_OR_RETURN(const double bandwidth, CopyBandwidth(backend));
    std::printf(
        "%s, copies at %.0f GB/s. Microseconds a layer (over the floor of its "
        "bytes)\n",
        backend.description().c_str(), bandwidth / 1e9);
    Bench bench(backend, flags, bandwidth);
    BOLE_RETURN_IF_ERROR(bench.MeasureAll());
    return std::move(bench.rows_);
  }

 private:
  Bench(CudaBackend& backend, const Flags& flags, double bandwidth)
      : backend_(backend),
        flags_(flags),
        bandwidth_(bandwidth),
        on_(backend.launch()) {}

  absl::Status MeasureAll() {
    for (const std::string& shape : flags_.shapes) {
      BOLE_RETURN_IF_ERROR(MeasureShape(shape));
    }
    return absl::OkStatus();
  }

  absl::Status MeasureShape(const std::string& shape) {
    for (const int nodes : flags_.nodes) {
      for (const int batch : flags_.batches) {
        BOLE_RETURN_IF_ERROR(Rows(shape, {.shape = ShapeOf(shape),
                                          .num_requests = batch,
                                          .num_rows = nodes,
                                          .chains = nodes == 1,
                                          .num_layers = 1}));
      }
    }
    for (const int tokens : flags_.prefill) {
      BOLE_RETURN_IF_ERROR(Prefill(shape, {.shape = ShapeOf(shape),
                                           .num_requests = 1,
                                           .num_rows = tokens,
                                           .chains = true,
                                           .num_layers = 1}));
    }
    return absl::OkStatus();
  }

  // Layers whose operands are together larger than any L2.
  static int NumLayers(const GdnRowsOptions& options) {
    constexpr int64_t kWorkingSet = int64_t{256} << 20;
    const int64_t bytes =
        std::min(GdnRows::ConvBytes(options), GdnRows::CoreBytes(options));
    return static_cast<int>(
        std::clamp<int64_t>((kWorkingSet + bytes - 1) / bytes, 2, 128));
  }

  absl::Status Rows(const std::string& shape, GdnRowsOptions options) {
    options.num_layers = NumLayers(options);
    BOLE_ASSIGN_OR_RETURN(const auto rows, GdnRows::Create(backend_, options));
    std::vector<Operator> operators = {
        {"conv", GdnRows::ConvBytes(options),
         [&](int l) { return GdnConv(rows->Conv(l), on_); }},
        {"conv_plain", GdnRows::ConvBytes(options),
         [&](int l) { return PlainGdnConv(rows->Conv(l), on_); }},
        {"norm", GdnRows::GatedNormBytes(options),
         [&](int l) { return GdnGatedNorm(rows->GatedNorm(l), on_); }},
        {"norm_plain", GdnRows::GatedNormBytes(options),
         [&](int l) { return PlainGdnGatedNorm(rows->GatedNorm(l), on_); }},
    };
    if (options.num_rows == 1) {
      operators.push_back({"decode", GdnRows::CoreBytes(options), [&](int l) {
                             return GdnDecode(rows->Core(l), on_);
                           }});
      operators.push_back(
          {"windows", GdnRows::WindowBytes(options),
           [&](int l) { return GdnCommitWindows(rows->Windows(l), on_); }});
      operators.push_back({"four_operators", GdnRows::CoreBytes(options),
                           [&](int l) { return FourOperators(*rows, l); }});
      operators.push_back({"decode_layer", GdnRows::CoreBytes(options),
                           [&](int l) { return DecodeLayer(*rows, l); }});
    }
    if (!options.chains) {
      operators.push_back({"verify", GdnRows::CoreBytes(options), [&](int l) {
                             return GdnVerify(rows->Core(l),
                                              /*scratch=*/nullptr, on_);
                           }});
      operators.push_back({"three_operators", GdnRows::CoreBytes(options),
                           [&](int l) { return ThreeOperators(*rows, l); }});
      operators.push_back({"verify_layer", GdnRows::CoreBytes(options),
                           [&](int l) { return VerifyLayer(*rows, l); }});
    }
    return Measure(shape, options, operators, flags_.replays);
  }

  absl::Status VerifyLayer(const GdnRows& rows, int layer) {
    return backend_.GdnVerifyLayer({.conv = rows.Conv(layer),
                                    .core = rows.Core(layer),
                                    .norm = rows.GatedNorm(layer)});
  }

  absl::Status ThreeOperators(const GdnRows& rows, int layer) {
    BOLE_RETURN_IF_ERROR(GdnConv(rows.Conv(layer), on_));
    BOLE_RETURN_IF_ERROR(GdnVerify(rows.Core(layer), /*scratch=*/nullptr, on_));
    return GdnGatedNorm(rows.GatedNorm(layer), on_);
  }

  absl::Status DecodeLayer(const GdnRows& rows, int layer) {
    return GdnDecodeLayer({.conv = rows.Conv(layer),
                           .core = rows.Core(layer),
                           .windows = rows.Windows(layer),
                           .norm = rows.GatedNorm(layer)},
                          on_);
  }

  absl::Status FourOperators(const GdnRows& rows, int layer) {
    BOLE_RETURN_IF_ERROR(GdnConv(rows.Conv(layer), on_));
    BOLE_RETURN_IF_ERROR(GdnDecode(rows.Core(layer), on_));
    BOLE_RETURN_IF_ERROR(GdnCommitWindows(rows.Windows(layer), on_));
    return GdnGatedNorm(rows.GatedNorm(layer), on_);
  }

  absl::Status Prefill(const std::string& shape, GdnRowsOptions options) {
    options.num_layers = NumLayers(options);
    BOLE_ASSIGN_OR_RETURN(const auto rows, GdnRows::Create(backend_, options));
    const size_t bytes = GdnPrefillScratchBytes(rows->Core(0), on_);
    BOLE_ASSIGN_OR_RETURN(const DeviceMemory scratch,
                          backend_.Allocate(bytes, "records of chunks"));
    auto* records = static_cast<ChunkRecord*>(scratch.get());
    const std::vector<Operator> operators = {
        {"prefill", GdnRows::CoreBytes(options),
         [&](int l) { return GdnPrefill(rows->Core(l), records, on_); }},
        {"factors", 0,
         [&](int l) {
           return ComputeChunkFactors(rows->Core(l), records, on_);
         }},
        {"scan", 0,
         [&](int l) { return ScanChunks(rows->Core(l), records, on_); }},
        {"prefill_plain", GdnRows::CoreBytes(options),
         [&](int l) { return RunRows("prefill", rows->Core(l), on_); }},
        {"conv", GdnRows::ConvBytes(options),
         [&](int l) { return GdnConv(rows->Conv(l), on_); }},
        {"norm", GdnRows::GatedNormBytes(options),
         [&](int l) { return GdnGatedNorm(rows->GatedNorm(l), on_); }},
    };
    return Measure(shape, options, operators, std::min(flags_.replays, 5));
  }

  absl::Status Measure(const std::string& shape, const GdnRowsOptions& options,
                       const std::vector<Operator>& operators, int replays) {
    Json row = {{"shape", shape},
                {"requests", options.num_requests},
                {"rows", options.num_rows},
                {"copy_gb_per_s", bandwidth_ / 1e9}};
    std::printf("%-5s B %2d  T %4d", shape.c_str(), options.num_requests,
                options.num_rows);
    for (const Operator& op : operators) {
      BOLE_ASSIGN_OR_RETURN(
          const double us,
          MedianMicroseconds(backend_, options.num_layers, op.call, replays));
      row[std::string(op.name) + "_us"] = us;
      std::printf("  %s %.2f", op.name, us);
      if (op.bytes > 0) {
        const double floor = 1e6 * static_cast<double>(op.bytes) / bandwidth_;
        row[std::string(op.name) + "_floor_us"] = floor;
        std::printf(" (%.2f)", us / floor);
      }
      std::fflush(stdout);
    }
    std::printf("\n");
    rows_.push_back(std::move(row));
    return absl::OkStatus();
  }

  CudaBackend& backend_;
  const Flags& flags_;
  const double bandwidth_;
  const Launch on_;
  Json rows_ = Json::array();
};

absl::Status Run(const Flags& flags, const std::string& command) {
  BOLE_ASSIGN_OR_RETURN(const auto backend, CudaBackend::Create());
  BOLE_ASSIGN_OR_RETURN(const Json rows, Bench::Run(*backend, flags));
  return WriteReport(flags.json, *backend, command, flags.commit, rows);
}

}  // namespace
}  // namespace bole::cuda

int main(int argc, char** argv) {
  bole::cuda::Flags flags;
  bole::CommandLine app(
      "gdn_layer_bench",
      "Times the operators of a linear layer on the GPU, alone and a layer in "
      "one launch: medians of graph replays over layers that no cache holds. T "
      "rows for each of B requests are a token (1) or a drafted tree; prefill "
      "is of one request.");
  app.Add("--shapes", flags.shapes, "of 4B (and 9B), 27B, 122B")
      .OneOf({"4B", "27B", "122B"});
  app.Add("--batch", flags.batches, "requests");
  app.Add("--nodes", flags.nodes, "rows of a request");
  app.Add("--prefill", flags.prefill, "tokens, 0 for none");
  bole::cuda::AddReportFlags(flags.replays, flags.json, flags.commit, app);
  if (const auto exit_code = app.Parse(argc, argv)) return *exit_code;
  std::erase(flags.prefill, 0);
  const std::string command =
      bole::cuda::CommandLine("gdn_layer_bench", argc, argv);
  return bole::cuda::ExitCode(bole::cuda::Run(flags, command));
}
