// The core of a linear layer on the GPU: verification of drafted trees by each
// solver, and the commit, beside the least that their bytes take.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/command_line.h"
#include "common/status_macros.h"
#include "kernels/gdn.h"
#include "nlohmann/json.hpp"
#include "tests/bench/cuda/gdn_errors.h"
#include "tests/bench/cuda/gdn_layers.h"
#include "tests/bench/cuda/gpu_bench.h"

namespace bole::cuda {
namespace {

using Json = nlohmann::ordered_json;

constexpr GdnShape Shape(int value_heads) {
  return {.key_heads = 16,
          .value_heads = value_heads,
          .key_dim = 128,
          .value_dim = 128,
          .conv_taps = 4};
}

GdnShape ShapeOf(const std::string& name) {
  if (name == "4B") return Shape(32);
  return Shape(name == "27B" ? 48 : 64);
}

TreeSolver SolverOf(const std::string& name) {
  if (name == "serial") return TreeSolver::kSerial;
  return name == "neumann" ? TreeSolver::kNeumann : TreeSolver::kBlocks;
}

struct Flags {
  std::vector<std::string> shapes = {"4B", "27B", "122B"};
  std::vector<int> batches = {1, 4, 8, 16};
  std::vector<int> nodes = {8, 16, 32, 64, 128};
  std::vector<std::string> solvers = {"blocks", "neumann", "serial"};
  int num_accepted = 8;
  int replays = 20;
  bool errors = true;
  std::string json;
  std::string commit;
};

// Linear layers of the 4B and the 9B.
constexpr int kModelLayers = 24;

// Layers whose operands are together larger than any L2.
int NumLayers(const GdnLayersOptions& options) {
  constexpr int64_t kWorkingSet = int64_t{256} << 20;
  const int64_t bytes = GdnLayers::VerifyBytes(options);
  return static_cast<int>(
      std::clamp<int64_t>((kWorkingSet + bytes - 1) / bytes, 4, 128));
}

// Times of one shape, batch and size of tree: a line, and a row of the report.
class Measurement {
 public:
  Measurement(CudaBackend& backend, int replays, double bandwidth)
      : backend_(backend), replays_(replays), bandwidth_(bandwidth) {}

  absl::StatusOr<Json> Run(const std::string& shape,
                           const std::vector<std::string>& solvers,
                           const GdnLayersOptions& options) {
    BOLE_ASSIGN_OR_RETURN(const auto layers,
                          GdnLayers::Create(backend_, options));
    const int64_t bytes = GdnLayers::VerifyBytes(options);
    row_ = {{"shape", shape},
            {"requests", options.num_requests},
            {"nodes", options.num_nodes},
            {"layers", options.num_layers},
            {"copy_gb_per_s", bandwidth_ / 1e9},
            {"floor_us", Microseconds(bytes)},
            {"floor_with_u_us",
             Microseconds(bytes + GdnLayers::CorrectionBytes(options))},
            {"commit_floor_us", Microseconds(GdnLayers::CommitBytes(options))}};
    std::printf("%-5s B %2d  T %3d  floor %6.2f", shape.c_str(),
                options.num_requests, options.num_nodes, Microseconds(bytes));
    BOLE_RETURN_IF_ERROR(TimeCommits(*layers, options.num_layers));
    for (const std::string& name : solvers) {
      BOLE_RETURN_IF_ERROR(TimeSolver(*layers, name, options.num_layers));
    }
    std::printf("\n");
    return row_;
  }

 private:
  // By replay: the states by themselves, and with windows, keys and values, a
  // model's layers at a time.
  absl::Status TimeCommits(const GdnLayers& layers, int num_layers) {
    BOLE_RETURN_IF_ERROR(
        Time("commit", "commit_floor_us", 1, num_layers,
             [&](int) { return backend_.GdnCommitStates(layers.Commit()); }));
    GdnCommitParams some = layers.Commit();
    some.num_layers = std::min(kModelLayers, num_layers);
    return Time("commit_path", "commit_floor_us", num_layers / some.num_layers,
                some.num_layers, [&](int call) {
                  some.first_layer = call * some.num_layers;
                  return backend_.CommitPath(some, layers.Compact());
                });
  }

  // And its sum with the commit that its design allows.
  absl::Status TimeSolver(const GdnLayers& layers, const std::string& name,
                          int num_layers) {
    const TreeSolver solver = SolverOf(name);
    BOLE_RETURN_IF_ERROR(Time(name, "floor_us", num_layers, 1, [&](int layer) {
      return backend_.GdnVerify(layers.Core(layer, solver));
    }));
    std::string commit = "commit";
    if (solver == TreeSolver::kSerial) {
      commit = "snapshot_commit";
      BOLE_RETURN_IF_ERROR(
          Time(commit, "commit_floor_us", 1, num_layers, [&](int) {
            return backend_.GdnCommitStates(
                layers.Commit(/*from_node_states=*/true));
          }));
    }
    const double sum =
        row_[name + "_us"].get<double>() + row_[commit + "_us"].get<double>();
    row_[name + "_and_commit_us"] = sum;
    std::printf("  %s and commit %7.2f", name.c_str(), sum);
    return absl::OkStatus();
  }

  double Microseconds(int64_t bytes) const {
    return 1e6 * static_cast<double>(bytes) / bandwidth_;
  }
  // Per layer.
  absl::Status Time(const std::string& name, const char* floor, int calls,
                    int layers_per_call,
                    const std::function<absl::Status(int)>& queue) {
    BOLE_ASSIGN_OR_RETURN(const double us,
                          MedianMicroseconds(backend_, calls, queue, replays_));
    const double per_layer = us / layers_per_call;
    const double ratio = per_layer / row_[floor].get<double>();
    row_[name + "_us"] = per_layer;
    row_[name + "_ratio"] = ratio;
    std::printf("  %s %7.2f (%.2f)", name.c_str(), per_layer, ratio);
    std::fflush(stdout);
    return absl::OkStatus();
  }

  CudaBackend& backend_;
  int replays_;
  double bandwidth_;
  Json row_;
};

// What a request of 100 nodes keeps from verification to commit.
Json TransientMemory() {
  struct Model {
    const char* name;
    int value_heads;
    int linear_layers;
  };
  constexpr Model kModels[] = {
      {"9B", 32, 24}, {"27B", 48, 48}, {"122B", 64, 36}};
  Json rows = Json::array();
  for (const Model& model : kModels) {
    const GdnLayersOptions options = {.shape = Shape(model.value_heads),
                                      .num_requests = 1,
                                      .num_nodes = 100,
                                      .num_layers = model.linear_layers};
    const auto megabytes = [](int64_t bytes) {
      return static_cast<double>(bytes) / 1e6;
    };
    const double factors = megabytes(GdnLayers::FactorBytes(options));
    const double raw = megabytes(GdnLayers::RawBytes(options));
    const double states = megabytes(GdnLayers::NodeStateBytes(options));
    std::printf(
        "%-5s 100 nodes: factors of the states %.1f MB, raw rows of the "
        "windows %.1f MB; a state for every node %.0f MB\n",
        model.name, factors, raw, states);
    rows.push_back({{"model", model.name},
                    {"nodes", 100},
                    {"factors_mb", factors},
                    {"raw_rows_mb", raw},
                    {"node_states_mb", states}});
  }
  return rows;
}

absl::Status Run(const Flags& flags, const std::string& command) {
  BOLE_ASSIGN_OR_RETURN(const auto backend, CudaBackend::Create());
  BOLE_ASSIGN_OR_RETURN(const double bandwidth, CopyBandwidth(*backend));
  std::printf(
      "%s, copies at %.0f GB/s. Microseconds a layer (over the floor)\n",
      backend->description().c_str(), bandwidth / 1e9);
  Json rows = TransientMemory();
  for (const std::string& shape : flags.shapes) {
    for (const int batch : flags.batches) {
      for (const int nodes : flags.nodes) {
        GdnLayersOptions options = {.shape = ShapeOf(shape),
                                    .num_requests = batch,
                                    .num_nodes = nodes,
                                    .num_accepted = flags.num_accepted,
                                    .num_layers = 1};
        options.num_layers = NumLayers(options);
        options.keeps_node_states =
            std::count(flags.solvers.begin(), flags.solvers.end(), "serial") >
            0;
        Measurement measurement(*backend, flags.replays, bandwidth);
        BOLE_ASSIGN_OR_RETURN(Json row,
                              measurement.Run(shape, flags.solvers, options));
        rows.push_back(std::move(row));
      }
    }
  }
  if (flags.errors) {
    BOLE_ASSIGN_OR_RETURN(const Json errors, MeasureErrors(*backend));
    for (const Json& row : errors) rows.push_back(row);
  }
  return WriteReport(flags.json, *backend, command, flags.commit, rows);
}

}  // namespace
}  // namespace bole::cuda

int main(int argc, char** argv) {
  bole::cuda::Flags flags;
  bole::CommandLine app(
      "gdn_verify_bench",
      "Times verification of trees (depth 8, top-k 4) and commits of one "
      "linear layer on the GPU: medians of graph replays over layers that no "
      "cache holds. The floor is the bytes that must move over the copy "
      "bandwidth of the same run.");
  app.Add("--shapes", flags.shapes, "of 4B (and 9B), 27B, 122B")
      .OneOf({"4B", "27B", "122B"});
  app.Add("--batch", flags.batches, "requests");
  app.Add("--nodes", flags.nodes, "nodes of a tree");
  app.Add("--solvers", flags.solvers, "of blocks, neumann, serial")
      .OneOf({"blocks", "neumann", "serial"});
  app.Add("--accepted", flags.num_accepted, "nodes that are committed");
  app.AddSwitch("--errors,!--no-errors", flags.errors,
                "errors against float64, too");
  bole::cuda::AddReportFlags(flags.replays, flags.json, flags.commit, app);
  if (const auto exit_code = app.Parse(argc, argv)) return *exit_code;
  const std::string command =
      bole::cuda::CommandLine("gdn_verify_bench", argc, argv);
  return bole::cuda::ExitCode(bole::cuda::Run(flags, command));
}
