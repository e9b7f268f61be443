// The name of a synthetic model: what it is to be like.
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

// "synthetic:SIZE[,OPTION=VALUE]...": shapes and cost of a published size,
// weights out of a seed, and text out of a Markov chain.
struct SyntheticSpec {
  std::string size;      // As ConfigOfSize() knows it.
  uint64_t seed = 1;     // seed=
  double entropy = 0.5;  // entropy= of the chain, in nats.
  double spread = 1;     // spread= of difficulty.
  double accept = 6.9;   // accept= mean accepted tokens of greedy
                         // decoding,
  VerifiedTree tree = {.shape = {.top_k = 4, .depth = 8},
                       .nodes = 64};  // tree= with this tree.
  // tokens= of the chain. As many as leave 32,768 in the list of drafted ones;
  // all of a smaller vocabulary.
  int tokens = 33152;
  // outside= the share of tokens that are not in that list, as measured
  // (tests/bench/profile/README.md).
  double outside = 0.009;
  std::optional<double> noise;  // noise= of the drafter, instead of accept.
  std::optional<int> layers;    // layers= only the first so many.
};

// Whether a model's name is that of a synthetic one.
bool IsSynthetic(std::string_view model);

// INVALID_ARGUMENT, naming what is wrong and what is allowed. The size is not
// looked at. REQUIRES: IsSynthetic(model).
absl::StatusOr<SyntheticSpec> ParseSyntheticSpec(std::string_view model);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_SYNTHETIC_SPEC_H_
