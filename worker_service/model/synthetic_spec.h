// The name of a synthetic model, which says what the model should be like.
#ifndef BOLE_WORKER_SERVICE_MODEL_SYNTHETIC_SPEC_H_
#define BOLE_WORKER_SERVICE_MODEL_SYNTHETIC_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "worker_service/model/markov_chain.h"
#include "worker_service/model/simulated_drafter.h"

namespace bole {

// "synthetic:SIZE[,OPTION=VALUE]...": the shapes and the cost of a published
// size, weights from a seed, and text from a Markov chain.
struct SyntheticSpec {
  std::string size;      // A name for ConfigOfSize().
  uint64_t seed = 1;     // seed=
  double entropy = 0.5;  // entropy= of the chain, in nats.
  double spread = 1;     // spread= of difficulty.
  double accept = 6.9;   // accept= mean accepted tokens of greedy
                         // decoding,
  VerifiedTree tree = {.shape = {.top_k = 4, .depth = 8},
                       .nodes = 64};  // tree= with this tree.
  // tokens= of the chain; all of a smaller vocabulary. The default leaves
  // 32,768 tokens in the list of those that the drafter drafts.
  int tokens = 33152;
  // outside= the share of tokens that are not in that list; the default was
  // measured (tests/bench/profile/README.md).
  double outside = 0.009;
  std::optional<double> noise;  // noise= of the drafter, instead of accept.
  std::optional<int> layers;    // layers= keeps only the first ones.
};

// Whether a model's name is that of a synthetic one.
bool IsSynthetic(std::string_view model);

// INVALID_ARGUMENT, naming what is wrong and what is allowed. The size is not
// checked. REQUIRES: IsSynthetic(model).
absl::StatusOr<SyntheticSpec> ParseSyntheticSpec(std::string_view model);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_SYNTHETIC_SPEC_H_
