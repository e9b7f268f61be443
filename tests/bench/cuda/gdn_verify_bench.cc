// The core of a linear layer on the GPU: verification of drafted trees by each
// solver, and the commit, beside the least that their bytes take.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/status_macros.h"
#include "kernels/gdn.h"
#include "nlohmann/json.hpp"
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
  std::string json;
  std::string commit;
};

// Layers whose operands are together larger than any L2.
int NumLayers(GdnLayersOptions options) {
  constexpr int64_t kWorkingSet = int64_t{256} << 20;
  const int64_t bytes = GdnLayers::VerifyBytes(options);
  return static_cast<int>(
      std::clamp<int64_t>((kWorkingSet + bytes - 1) / bytes, 4, 128));
}

// One line: times of a shape, a batch and a size of tree.
absl::StatusOr<Json> Measure(CudaBackend& backend, const Flags& flags,
                             const std::string& shape, GdnLayersOptions options,
                             double bandwidth) {
  const auto microseconds = [&](int64_t bytes) {
    return 1e6 * static_cast<double>(bytes) / bandwidth;
  };
  options.num_layers = NumLayers(options);
  BOLE_ASSIGN_OR_RETURN(const auto layers, GdnLayers::Create(backend, options));
  const int64_t bytes = GdnLayers::VerifyBytes(options);
  const double floor = microseconds(bytes);
  const double commit_floor = microseconds(GdnLayers::CommitBytes(options));
  Json row = {{"shape", shape},
              {"requests", options.num_requests},
              {"nodes", options.num_nodes},
              {"floor_us", floor},
              {"floor_with_u_us",
               microseconds(bytes + GdnLayers::CorrectionBytes(options))},
              {"commit_floor_us", commit_floor}};
  std::printf("%-5s B %2d  T %3d  floor %6.2f", shape.c_str(),
              options.num_requests, options.num_nodes, floor);
  for (const std::string& solver : flags.solvers) {
    const TreeSolver which = SolverOf(solver);
    BOLE_ASSIGN_OR_RETURN(
        const double us,
        MedianMicroseconds(
            backend, options.num_layers,
            [&](int layer) {
              return backend.GdnVerify(layers->Core(layer, which));
            },
            flags.replays));
    row[solver + "_us"] = us;
    row[solver + "_ratio"] = us / floor;
    std::printf("  %s %7.2f (%.2f)", solver.c_str(), us, us / floor);
    std::fflush(stdout);
  }
  BOLE_ASSIGN_OR_RETURN(
      double commit,
      MedianMicroseconds(
          backend, 1,
          [&](int) { return backend.GdnCommitStates(layers->Commit()); },
          flags.replays));
  commit /= options.num_layers;
  row["commit_us"] = commit;
  row["commit_ratio"] = commit / commit_floor;
  std::printf("  commit %6.2f (%.2f)\n", commit, commit / commit_floor);
  std::fflush(stdout);
  return row;
}

absl::Status Run(const Flags& flags, const std::string& command) {
  BOLE_ASSIGN_OR_RETURN(const auto backend, CudaBackend::Create());
  BOLE_ASSIGN_OR_RETURN(const double bandwidth, CopyBandwidth(*backend));
  std::printf(
      "%s, copies at %.0f GB/s. Microseconds a layer (over the floor)\n",
      backend->description().c_str(), bandwidth / 1e9);
  Json rows = Json::array();
  for (const std::string& shape : flags.shapes) {
    for (const int batch : flags.batches) {
      for (const int nodes : flags.nodes) {
        BOLE_ASSIGN_OR_RETURN(Json row,
                              Measure(*backend, flags, shape,
                                      {.shape = ShapeOf(shape),
                                       .num_requests = batch,
                                       .num_nodes = nodes,
                                       .num_accepted = flags.num_accepted,
                                       .num_layers = 1},
                                      bandwidth));
        row["copy_gb_per_s"] = bandwidth / 1e9;
        rows.push_back(std::move(row));
      }
    }
  }
  return WriteReport(flags.json, *backend, command, flags.commit, rows);
}

}  // namespace
}  // namespace bole::cuda

int main(int argc, char** argv) {
  bole::cuda::Flags flags;
  CLI::App app(
      "Times verification of trees (depth 8, top-k 4) and commits of one "
      "linear "
      "layer on the GPU: medians of graph replays over layers that no cache "
      "holds. The floor is the bytes that must move over the copy bandwidth of "
      "the same run.");
  app.add_option("--shapes", flags.shapes, "of 4B (and 9B), 27B, 122B")
      ->delimiter(',')
      ->check(CLI::IsMember({"4B", "27B", "122B"}))
      ->capture_default_str();
  app.add_option("--batch", flags.batches, "requests")->delimiter(',');
  app.add_option("--nodes", flags.nodes, "nodes of a tree")->delimiter(',');
  app.add_option("--solvers", flags.solvers, "of blocks, neumann, serial")
      ->delimiter(',')
      ->check(CLI::IsMember({"blocks", "neumann", "serial"}));
  app.add_option("--accepted", flags.num_accepted, "nodes that are committed")
      ->capture_default_str();
  app.add_option("--replays", flags.replays, "of each graph")
      ->capture_default_str();
  app.add_option("--json", flags.json, "file for the results");
  app.add_option("--commit", flags.commit, "of the tree, for the results");
  CLI11_PARSE(app, argc, argv);
  std::string command = "gdn_verify_bench";
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  const absl::Status status = bole::cuda::Run(flags, command);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
