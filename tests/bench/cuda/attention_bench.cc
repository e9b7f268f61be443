// Full attention on the GPU: decoding, verification of drafted trees and
// prefill, beside the least that bytes and arithmetic take, and beside the
// kernel for all shapes.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/command_line.h"
#include "common/status_macros.h"
#include "kernels/attention.h"
#include "kernels/cuda/operators.h"
#include "kernels/matrix_source.h"
#include "nlohmann/json.hpp"
#include "tests/bench/cuda/attention_layers.h"
#include "tests/bench/cuda/gpu_bench.h"

namespace bole::cuda {
namespace {

using Json = nlohmann::ordered_json;

AttentionShape Heads(int query_heads, int kv_heads) {
  return {.query_heads = query_heads,
          .kv_heads = kv_heads,
          .head_dim = 256,
          .rotary_dim = 64};
}

AttentionShape ShapeOf(const std::string& name) {
  if (name == "9B") return Heads(16, 4);
  if (name == "27B") return Heads(24, 4);
  return Heads(name == "35B" ? 16 : 32, 2);
}

struct Flags {
  std::vector<std::string> shapes = {"9B", "27B", "35B", "122B"};
  std::vector<int> batches = {1, 4, 8, 16};
  std::vector<int> nodes = {1, 16, 64, 128};
  std::vector<int> tokens = {1024, 8192, 32768};
  std::vector<int> prefill = {8192};
  bool plain = false;
  bool neighbours = false;
  int replays = 10;
  std::string json;
  std::string commit;
};

// What the GPU can do, measured in the same run.
struct Rates {
  double bytes;  // Per second.
  double flops;
};

// A square product of 8192 rows, by the library.
absl::StatusOr<double> MatrixRate(CudaBackend& backend) {
  constexpr int kSize = 8192;
  const std::vector<float> part(int64_t{kSize} * 64, 0.37f);
  const std::vector<MatrixBlock> blocks(kSize / 64, FloatBlock(part, kSize));
  BOLE_ASSIGN_OR_RETURN(
      const WeightMatrix* weight,
      backend.LoadMatrix({.columns = kSize, .blocks = blocks}));
  constexpr int64_t kElements = int64_t{kSize} * kSize;
  BOLE_ASSIGN_OR_RETURN(const DeviceMemory x,
                        RandomActivations(backend, kElements, 1, 1));
  BOLE_ASSIGN_OR_RETURN(const DeviceMemory out,
                        RandomActivations(backend, kElements, 1, 2));
  BOLE_ASSIGN_OR_RETURN(
      const double us, MedianMicroseconds(backend, 1, [&](int) {
        return backend.MatMul({.rows = {.count = nullptr, .max = kSize},
                               .x = static_cast<Activation*>(x.get()),
                               .weight = weight,
                               .out = static_cast<Activation*>(out.get()),
                               .out_float = nullptr,
                               .accumulate = false});
      }));
  return 2.0 * kElements * kSize / us * 1e6;
}

class Bench {
 public:
  Bench(CudaBackend& backend, const Flags& flags, const Rates& rates,
        AttentionPool& pool)
      : backend_(backend), flags_(flags), rates_(rates), pool_(pool) {}

  // One line.
  absl::StatusOr<Json> Measure(const std::string& name,
                               const AttentionLoad& load);

 private:
  absl::StatusOr<double> Time(const AttentionLayers& layers) const {
    return MedianMicroseconds(
        backend_, layers.num_layers(),
        [&](int layer) { return backend_.Attend(layers.Attend(layer)); },
        flags_.replays);
  }
  // The kernel for all shapes: a few calls, as it may take long.
  absl::StatusOr<double> TimePlain(const AttentionLayers& layers) const {
    const Launch on = {.type = ElementType::kBFloat16,
                       .stream = backend_.stream()};
    return MedianMicroseconds(
        backend_, std::min(layers.num_layers(), 2),
        [&](int layer) { return cuda::Attend(layers.Attend(layer), on); },
        /*replays=*/3);
  }
  absl::Status TimeNeighbours(const AttentionLayers& layers, Json& row) const;

  CudaBackend& backend_;
  const Flags& flags_;
  Rates rates_;
  AttentionPool& pool_;
};

absl::Status Bench::TimeNeighbours(const AttentionLayers& layers,
                                   Json& row) const {
  BOLE_ASSIGN_OR_RETURN(
      const double prepare,
      MedianMicroseconds(backend_, layers.num_layers(), [&](int layer) {
        return backend_.PrepareQkv(layers.PrepareQkv(layer));
      }));
  BOLE_ASSIGN_OR_RETURN(const double compact,
                        MedianMicroseconds(backend_, 4, [&](int) {
                          return backend_.CompactKv(layers.Compact());
                        }));
  BOLE_ASSIGN_OR_RETURN(
      const double both,
      MedianMicroseconds(
          backend_, layers.num_layers(), [&](int layer) -> absl::Status {
            BOLE_RETURN_IF_ERROR(backend_.PrepareQkv(layers.PrepareQkv(layer)));
            return backend_.Attend(layers.Attend(layer));
          }));
  row["prepare_us"] = prepare;
  row["prepare_and_attend_us"] = both;
  row["compact_us"] = compact;
  row["compact_layers"] = layers.num_layers();
  std::printf("  prepare %6.2f  with it %6.2f  compact %6.2f (%d layers)",
              prepare, both, compact, layers.num_layers());
  return absl::OkStatus();
}

absl::StatusOr<Json> Bench::Measure(const std::string& name,
                                    const AttentionLoad& load) {
  const AttentionLayers layers(backend_, pool_, load);
  BOLE_RETURN_IF_ERROR(layers.status());
  const double bytes_us =
      1e6 * static_cast<double>(AttentionBytes(load)) / rates_.bytes;
  const double flops_us =
      1e6 * static_cast<double>(AttentionFlops(load)) / rates_.flops;
  const double floor = std::max(bytes_us, flops_us);
  BOLE_ASSIGN_OR_RETURN(const double us, Time(layers));
  Json row = {{"shape", name},          {"requests", load.num_requests},
              {"rows", load.num_nodes}, {"committed", load.num_committed},
              {"prefill", load.chains}, {"bytes_us", bytes_us},
              {"flops_us", flops_us},   {"us", us},
              {"ratio", us / floor}};
  std::printf(
      "%-5s B %2d  T %4d  KV %5d  bytes %7.2f  flops %7.2f  us %8.2f (%.2f)",
      name.c_str(), load.num_requests, load.num_nodes, load.num_committed,
      bytes_us, flops_us, us, us / floor);
  if (flags_.plain) {
    BOLE_ASSIGN_OR_RETURN(const double plain, TimePlain(layers));
    row["plain_us"] = plain;
    std::printf("  plain %9.2f (%.1f times)", plain, plain / us);
  }
  if (flags_.neighbours) {
    BOLE_RETURN_IF_ERROR(TimeNeighbours(layers, row));
  }
  std::printf("\n");
  std::fflush(stdout);
  return row;
}

using NamedLoad = std::pair<std::string, AttentionLoad>;

// Trees of one batch size, and then chunks of prefill of one request.
void AddLoads(const Flags& flags, const std::string& name, int batch,
              std::vector<NamedLoad>& loads) {
  for (const int tokens : flags.tokens) {
    for (const int nodes : flags.nodes) {
      loads.emplace_back(name, AttentionLoad{.shape = ShapeOf(name),
                                             .num_requests = batch,
                                             .num_nodes = nodes,
                                             .num_committed = tokens});
    }
  }
}
void AddPrefills(const Flags& flags, const std::string& name,
                 std::vector<NamedLoad>& loads) {
  for (const int rows : flags.prefill) {
    loads.emplace_back(name, AttentionLoad{.shape = ShapeOf(name),
                                           .num_requests = 1,
                                           .num_nodes = rows,
                                           .num_committed = 0,
                                           .chains = true});
  }
}

// Every load that the flags name.
std::vector<NamedLoad> Loads(const Flags& flags) {
  std::vector<NamedLoad> loads;
  for (const std::string& name : flags.shapes) {
    for (const int batch : flags.batches) AddLoads(flags, name, batch, loads);
    AddPrefills(flags, name, loads);
  }
  return loads;
}

absl::Status Run(const Flags& flags, const std::string& command) {
  BOLE_ASSIGN_OR_RETURN(const auto backend, CudaBackend::Create());
  Rates rates = {};
  BOLE_ASSIGN_OR_RETURN(rates.bytes, CopyBandwidth(*backend));
  BOLE_ASSIGN_OR_RETURN(rates.flops, MatrixRate(*backend));
  std::printf("%s, copies at %.0f GB/s, products at %.0f TFLOP/s\n",
              backend->description().c_str(), rates.bytes / 1e9,
              rates.flops / 1e12);
  const auto loads = Loads(flags);
  int64_t head_tokens = int64_t{1} << 19;
  int64_t row_elements = 0;
  for (const auto& [name, load] : loads) {
    const int64_t tokens = load.num_committed + load.num_nodes + 64;
    head_tokens =
        std::max(head_tokens, tokens * load.num_requests * load.shape.kv_heads);
    row_elements =
        std::max(row_elements, int64_t{load.num_requests} * load.num_nodes *
                                   load.shape.projected_width());
  }
  BOLE_ASSIGN_OR_RETURN(
      const auto pool,
      AttentionPool::Create(*backend, head_tokens, row_elements));
  Bench bench(*backend, flags, rates, *pool);
  Json rows = Json::array();
  for (const auto& [name, load] : loads) {
    BOLE_ASSIGN_OR_RETURN(Json row, bench.Measure(name, load));
    row["copy_gb_per_s"] = rates.bytes / 1e9;
    row["product_tflop_per_s"] = rates.flops / 1e12;
    rows.push_back(std::move(row));
  }
  return WriteReport(flags.json, *backend, command, flags.commit, rows);
}

}  // namespace
}  // namespace bole::cuda

int main(int argc, char** argv) {
  bole::cuda::Flags flags;
  bole::CommandLine app(
      "attention_bench",
      "Times Attend on the GPU: medians of graph replays over layers that no "
      "cache holds, in microseconds a layer. Beside it what its bytes take at "
      "the speed of copies and its arithmetic at that of large products, both "
      "measured in the same run, and the ratio to the larger of the two.");
  app.Add("--shapes", flags.shapes, "of 9B (and 4B), 27B, 35B, 122B")
      .OneOf({"9B", "27B", "35B", "122B"});
  app.Add("--batch", flags.batches, "requests");
  app.Add("--nodes", flags.nodes, "nodes of a tree");
  app.Add("--tokens", flags.tokens, "tokens before it");
  app.Add("--prefill", flags.prefill, "rows of a chunk; 0 for none");
  app.AddSwitch("--plain", flags.plain, "the kernel for all shapes as well");
  app.AddSwitch("--neighbours", flags.neighbours,
                "PrepareQkv, it and Attend together, and CompactKv as well");
  bole::cuda::AddReportFlags(flags.replays, flags.json, flags.commit, app);
  if (const auto exit_code = app.Parse(argc, argv)) return *exit_code;
  std::erase(flags.prefill, 0);
  const std::string command =
      bole::cuda::CommandLine("attention_bench", argc, argv);
  return bole::cuda::ExitCode(bole::cuda::Run(flags, command));
}
