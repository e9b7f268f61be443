// One sequence on an engine of its own, stepped by hand: for tests of what
// rounds leave in the recurrent states.
#ifndef BOLE_TESTS_WORKER_SERVICE_ENGINE_STEPPED_SEQUENCE_H_
#define BOLE_TESTS_WORKER_SERVICE_ENGINE_STEPPED_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/packed_forest.h"
#include "common/proposal_tree.h"
#include "common/step.h"
#include "worker_service/engine/engine.h"
#include "worker_service/eval/generator.h"
#include "worker_service/loading/loaded_model.h"

namespace bole::testing_support {

class SteppedSequence {
 public:
  static constexpr int kMaxContext = 2048;

  // `model` was loaded into `backend`; both must outlive the sequence. A failed
  // step is a failed expectation.
  SteppedSequence(const LoadedModel& model, Backend& backend,
                  const GenerateOptions& options, float temperature);

  void Prefill(const std::vector<int32_t>& prompt);
  // One round on the best nodes of the last proposal. Returns the forest.
  PackedForest Round();
  // One round on a lone root: plain decoding of that token.
  void Feed(int32_t token);

  // Every linear layer's state of slot 0: [L, Hv, dv, dk].
  std::vector<float> States() const;
  int num_layers() const { return model_.config.num_linear_layers(); }

  Backend& backend() const { return backend_; }
  const LoadedModel& model() const { return model_; }
  const Engine& engine() const { return *engine_; }
  const SequenceResult& last() const { return last_; }
  // The token at the root of the next round.
  int32_t pending() const { return tree_.token[0]; }

 private:
  PackedForest Run(PackedForest forest);
  void Keep(SequenceResult result);

  const LoadedModel& model_;
  Backend& backend_;
  GenerateOptions options_;
  std::unique_ptr<Engine> engine_;
  SequencePlan plan_;
  ProposalTree tree_;
  SequenceResult last_;
};

// The rows that a walk along the emitted tokens visits.
std::vector<int> PathOf(const PackedForest& forest,
                        const std::vector<EmittedToken>& emitted);

// Advances `states` ([L, Hv, dv, dk], on the host) by GdnDecode over the
// operands that the sequence's last round recorded for these rows.
void DecodeOver(const SteppedSequence& sequence, const std::vector<int>& path,
                std::vector<float>& states);

}  // namespace bole::testing_support

#endif  // BOLE_TESTS_WORKER_SERVICE_ENGINE_STEPPED_SEQUENCE_H_
