#include "tests/simulation/simulated_model.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker_service/model/generation_config.h"

namespace bole::simulation {
namespace {

bool IsWord(std::string_view bytes) {
  return bytes.size() > 1 && bytes.front() == ' ' &&
         std::all_of(bytes.begin() + 1, bytes.end(), absl::ascii_isalpha);
}

}  // namespace

std::vector<int32_t> WordAlphabet(const Tokenizer& tokenizer) {
  std::vector<int32_t> words;
  for (int32_t id = 0; id < tokenizer.num_ids(); ++id) {
    const std::string_view bytes = tokenizer.TokenBytes(id);
    if (tokenizer.IsSpecial(id) || !IsWord(bytes)) continue;
    const absl::StatusOr<std::vector<int32_t>> ids = tokenizer.Encode(bytes);
    if (ids.ok() && *ids == std::vector<int32_t>{id}) words.push_back(id);
  }
  return words;
}

absl::StatusOr<SimulatedModel> LoadSimulatedModel(
    const std::string& directory) {
  const std::string path = directory + "/tokenizer.json";
  BOLE_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                        Tokenizer::Load(path));
  BOLE_ASSIGN_OR_RETURN(const std::optional<GenerationConfig> found,
                        LoadGenerationConfig(directory));
  const GenerationConfig generation = found.value_or(GenerationConfig());
  SimulatedModel model{.vocabulary = tokenizer->num_ids(),
                       .alphabet = WordAlphabet(*tokenizer),
                       .stop_tokens = {generation.eos_token_ids.begin(),
                                       generation.eos_token_ids.end()}};
  if (!model.alphabet.empty()) return model;
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      ": no token is a space and letters, so that no text can be written"));
}

}  // namespace bole::simulation
