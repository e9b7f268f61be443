// Runs one forward and returns all its numbers, to be compared with reference
// outputs.
#ifndef BOLE_WORKER_SERVICE_EVAL_FORWARD_H_
#define BOLE_WORKER_SERVICE_EVAL_FORWARD_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/packed_forest.h"
#include "kernels/backend.h"
#include "worker_service/loading/loaded_model.h"

namespace bole {

struct ForwardOptions {
  std::vector<int32_t> ids;      // T tokens.
  std::optional<NodeList> tree;  // Follows the last of ids: nodes with parent
                                 // kNoParent are its children. At most 128.
  int chunk = 0;                 // Tokens per prefill chunk; 0: all at once.
  TreeSolver solver = TreeSolver::kBlocks;
};

// Tensors by the names that tests/golden uses (its README lists them).
struct ForwardResult {
  struct Floats {
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  std::map<std::string, Floats> floats;
  std::map<std::string, std::vector<int32_t>> ints;
};

// Prefills the ids, drafts four tokens greedily after them if the checkpoint
// has a drafter, and verifies the tree.
// INVALID_ARGUMENT: no ids, a token outside of the vocabulary, a node list that
// is not a tree, more positions than the model has.
absl::StatusOr<ForwardResult> RunForward(const LoadedModel& model,
                                         Backend& backend,
                                         const ForwardOptions& options);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_EVAL_FORWARD_H_
