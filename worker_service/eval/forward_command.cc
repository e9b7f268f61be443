#include <cstdio>
#include <memory>
#include <string>

#include "common/command_line.h"
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
  TreeSolver solver = TreeSolver::kBlocks;
};

absl::Status Run(const Flags& flags) {
  ForwardOptions options{
      .ids = {}, .tree = {}, .chunk = flags.chunk, .solver = flags.solver};
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

Command AddForwardCommand(CommandLine& app) {
  auto flags = std::make_shared<Flags>();
  CommandLine& command = app.AddCommand(
      "forward", "Run tokens through the model and write every tensor.");
  flags->model.AddTo(command);
  command.Add("--ids", flags->ids, "JSON array of token ids")
      .Required()
      .ExistingFile();
  command
      .Add("--tree", flags->tree,
           "JSON {\"tokens\": [...], \"parents\": [...]}, verified after the "
           "ids; a parent of -1 is the last of them")
      .ExistingFile();
  command.Add("--out", flags->out, "safetensors file to write").Required();
  command
      .Add("--chunk", flags->chunk, "tokens per prefill chunk; 0: all at once")
      .Range(0, 1 << 20);
  command.AddChoice("--solver", flags->solver,
                    {{"blocks", TreeSolver::kBlocks},
                     {"neumann", TreeSolver::kNeumann},
                     {"serial", TreeSolver::kSerial}},
                    "how trees are solved");
  return [flags] { return Run(*flags); };
}

}  // namespace bole
