// The demo checkpoint again, for a drafter that differs from its own.
#ifndef BOLE_TESTS_WORKER_SERVICE_EVAL_DRAFTING_DEMO_H_
#define BOLE_TESTS_WORKER_SERVICE_EVAL_DRAFTING_DEMO_H_

#include <cstddef>
#include <vector>

#include "kernels/reference/reference_backend.h"
#include "worker_service/eval/generator.h"
#include "worker_service/loading/loaded_model.h"

namespace bole::testing_support {

struct DraftingDemo {
  DraftingDemo();

  // Their texts, by trees of 32 nodes.
  std::vector<GenerateResult> Run(const std::vector<GenerateRequest>& requests);

  ReferenceBackend backend{/*num_threads=*/2};
  LoadedModel model;
};

// 48 tokens for each of `count` of the demo model's prompts.
std::vector<GenerateRequest> DemoRequests(size_t first, size_t count,
                                          float temperature);

// Tokens a round.
double MeanAccepted(const std::vector<GenerateResult>& results);

}  // namespace bole::testing_support

#endif  // BOLE_TESTS_WORKER_SERVICE_EVAL_DRAFTING_DEMO_H_
