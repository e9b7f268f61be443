// What a simulated worker takes from a checkpoint's folder.
#ifndef BOLE_TESTS_SIMULATION_SIMULATED_MODEL_H_
#define BOLE_TESTS_SIMULATION_SIMULATED_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tokenizer/tokenizer.h"

namespace bole::simulation {

// The tokens that are a space and ASCII letters, ascending, as long as encoding
// them gives them back: a text of them is made of words, is UTF-8 wherever it
// is cut, and is encoded to the same tokens. Empty if the vocabulary has none.
std::vector<int32_t> WordAlphabet(const Tokenizer& tokenizer);

struct SimulatedModel {
  int vocabulary = 0;             // Ids of the tokenizer.
  std::vector<int32_t> alphabet;  // WordAlphabet().
  // The eos_token_id of generation_config.json.
  std::vector<int32_t> stop_tokens;
};

// Worker and client read the same folder, and so expect the same texts. Errors
// name the file.
absl::StatusOr<SimulatedModel> LoadSimulatedModel(const std::string& directory);

}  // namespace bole::simulation

#endif  // BOLE_TESTS_SIMULATION_SIMULATED_MODEL_H_
