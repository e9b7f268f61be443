#include <cstdio>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "common/status_macros.h"
#include "worker_service/eval/commands.h"
#include "worker_service/eval/flags.h"
#include "worker_service/eval/forward.h"
#include "worker_service/eval/json_file.h"
#include "worker_service/model/safetensors_writer.h"

namespace bole {
namespace {

struct Flags {
  ModelFlags model;
  std::string ids;
  std::string tree;
  std::string out;
  int chunk = 0;
  std::string solver = "blocks";
};

TreeSolver SolverOf(const std::string& name) {
  if (name == "neumann") return TreeSolver::kNeumann;
  return name == "serial" ? TreeSolver::kSerial : TreeSolver::kBlocks;
}

absl::Status Run(const Flags& flags) {
  ForwardOptions options{.ids = {},
                         .tree = {},
                         .chunk = flags.chunk,
                         .solver = SolverOf(flags.solver)};
  BOLE_ASSIGN_OR_RETURN(options.ids, ReadIds(flags.ids));
  if (!flags.tree.empty()) {
    BOLE_ASSIGN_OR_RETURN(options.tree, ReadTree(flags.tree));
  }
  BOLE_ASSIGN_OR_RETURN(const RunningModel running, Load(flags.model));
  BOLE_ASSIGN_OR_RETURN(const ForwardResult result,
                        RunForward(running.model, *running.backend, options));

  TensorMap tensors;
  for (const auto& [name, tensor] : result.floats) {
    tensors[name] = FloatTensor(tensor.values, tensor.shape);
  }
  for (const auto& [name, values] : result.ints) {
    tensors[name] = Int32Tensor(values, {static_cast<int64_t>(values.size())});
  }
  BOLE_RETURN_IF_ERROR(WriteSafetensors(flags.out, tensors));
  std::printf("%zu tokens, %zu tensors in %s\n", options.ids.size(),
              tensors.size(), flags.out.c_str());
  return absl::OkStatus();
}

}  // namespace

Command AddForwardCommand(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App& command = *app.add_subcommand(
      "forward", "Run tokens through the model and write every tensor.");
  flags->model.AddTo(command);
  command.add_option("--ids", flags->ids, "JSON array of token ids")
      ->required()
      ->check(CLI::ExistingFile);
  command
      .add_option(
          "--tree", flags->tree,
          "JSON {\"tokens\": [...], \"parents\": [...]}, verified after "
          "the ids; a parent of -1 is the last of them")
      ->check(CLI::ExistingFile);
  command.add_option("--out", flags->out, "safetensors file to write")
      ->required();
  command
      .add_option("--chunk", flags->chunk,
                  "tokens per prefill chunk; 0: all at once")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command.add_option("--solver", flags->solver, "how trees are solved")
      ->check(CLI::IsMember({"blocks", "neumann", "serial"}))
      ->capture_default_str();
  return [flags] { return Run(*flags); };
}

}  // namespace bole
