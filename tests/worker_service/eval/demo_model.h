// The demo checkpoint and its reference outputs, for tests of whole runs.
#ifndef BOLE_TESTS_WORKER_SERVICE_EVAL_DEMO_MODEL_H_
#define BOLE_TESTS_WORKER_SERVICE_EVAL_DEMO_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "worker_service/eval/generator.h"
#include "worker_service/loading/loaded_model.h"

namespace bole::testing_support {

// A file of tests/golden/demo.
nlohmann::json ReadGoldenJson(const std::string& name);

// The checkpoint in models/demo on the reference backend, loaded once for the
// process. One thread: results do not depend on it, and tests run side by side.
class DemoModel {
 public:
  static DemoModel& Get();

  const LoadedModel& model() const { return model_; }
  Backend& backend() { return *backend_; }

  // The 32 prompts of mat.json, as tokens.
  std::vector<std::vector<int32_t>> Prompts() const;

  // Runs all requests; stops the test process on an error.
  std::vector<GenerateResult> Run(const GenerateOptions& options,
                                  const std::vector<GenerateRequest>& requests);

 private:
  DemoModel();

  std::unique_ptr<Backend> backend_;
  LoadedModel model_;
};

// Speculation off, a chain of `depth`, or a tree that verifies `draft_nodes`
// and the root.
GenerateOptions Off(int max_batch);
GenerateOptions Chain(int depth, int max_batch);
GenerateOptions Tree(int draft_nodes, int max_batch);

std::vector<int32_t> Tokens(const GenerateResult& result);

}  // namespace bole::testing_support

#endif  // BOLE_TESTS_WORKER_SERVICE_EVAL_DEMO_MODEL_H_
