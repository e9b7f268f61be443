// Requests whose prompts are read in chunks beside the forests of others, for
// tests of plans that have both.
#ifndef BOLE_TESTS_WORKER_SERVICE_ENGINE_CHUNK_TRAFFIC_H_
#define BOLE_TESTS_WORKER_SERVICE_ENGINE_CHUNK_TRAFFIC_H_

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "common/draft_shape.h"
#include "common/proposal_tree.h"
#include "common/step.h"
#include "worker_service/engine/engine.h"

namespace bole::testing_support {

// Makes random plans, and takes their results. A text that ends makes room for
// another prompt. Chunks begin and end anywhere, and every other plan has as
// many of their tokens as may be.
class ChunkTraffic {
 public:
  struct Options {
    StepLimits limits;
    std::optional<DraftShape> draft = {};
    // Prompts of that many tokens at most, cut from `text`.
    int max_prompt = 0;
    std::vector<int32_t> text = {};
    uint32_t seed = 1;
  };
  explicit ChunkTraffic(Options options);

  // A chunk or a node at least.
  StepPlan Plan();
  // REQUIRES: the result of the last plan.
  void Apply(const StepPlan& plan, const StepResult& result);

 private:
  struct Request {
    std::vector<int32_t> prompt = {};
    SequencePlan sequence = {};
    std::optional<int32_t> prompt_logprobs = {};
    ProposalTree tree = {};

    int left_of_prompt() const {
      return static_cast<int>(prompt.size()) - sequence.committed;
    }
  };
  Request NewRequest(int number);
  std::optional<PrefillPlan> ChunkOf(const Request& request, int room);
  void Take(Request& request, const SequenceResult& result);

  const Options options_;
  std::mt19937 rng_;
  std::vector<Request> requests_;  // One for each slot, whose number it has.
};

// The same work as two plans: the chunks, and then the forest.
absl::StatusOr<StepResult> StepApart(Engine& engine, const StepPlan& plan);

}  // namespace bole::testing_support

#endif  // BOLE_TESTS_WORKER_SERVICE_ENGINE_CHUNK_TRAFFIC_H_
