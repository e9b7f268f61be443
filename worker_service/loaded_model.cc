#include "worker_service/loaded_model.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker_service/model/checkpoint.h"
#include "worker_service/model/checkpoint_tensors.h"
#include "worker_service/model/markov_chain.h"
#include "worker_service/model/published_sizes.h"
#include "worker_service/model/synthetic_spec.h"
#include "worker_service/model/synthetic_weights.h"

namespace bole {

namespace {

absl::StatusOr<LoadedModel> MakeSynthetic(const std::string& name,
                                          Backend& backend) {
  BOLE_ASSIGN_OR_RETURN(const SyntheticSpec spec, ParseSyntheticSpec(name));
  LoadedModel model;
  BOLE_ASSIGN_OR_RETURN(model.config, ConfigOfSize(spec.size));
  ModelConfig& config = model.config;
  if (spec.layers && *spec.layers < config.num_layers()) {
    config.layer_kinds.resize(*spec.layers);
  }
  model.generation.do_sample = false;  // What `accept` is the mean of.
  const MarkovChain chain = MakeMarkovChain(
      std::min(spec.tokens, config.vocab_size), spec.entropy, spec.seed);
  const double noise =
      spec.noise ? *spec.noise
                 : NoiseForAcceptance(chain, spec.accept,
                                      SyntheticSpec::kCalibrationTree);
  BOLE_ASSIGN_OR_RETURN(
      Weights weights,
      GenerateWeights({.chain = chain, .draft_noise = noise, .seed = spec.seed},
                      config, backend));
  model.weights = std::make_unique<Weights>(std::move(weights));
  model.known_tokens.resize(chain.num_tokens);
  std::iota(model.known_tokens.begin(), model.known_tokens.end(), 0);
  return model;
}

absl::StatusOr<LoadedModel> LoadCheckpoint(const std::string& directory,
                                           Backend& backend) {
  LoadedModel model;
  BOLE_ASSIGN_OR_RETURN(model.config, LoadModelConfig(directory));
  BOLE_ASSIGN_OR_RETURN(model.generation, LoadGenerationConfig(directory));
  BOLE_ASSIGN_OR_RETURN(const std::vector<int> stops,
                        StopIds(model.config, model.generation));
  model.stop_tokens.assign(stops.begin(), stops.end());

  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      Tokenizer::Load(directory + "/tokenizer.json");
  if (tokenizer.ok()) {
    model.tokenizer = *std::move(tokenizer);
  } else if (!absl::IsNotFound(tokenizer.status())) {
    return tokenizer.status();
  }

  BOLE_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                        Checkpoint::Open(directory));
  BOLE_ASSIGN_OR_RETURN(const CheckpointTensors tensors,
                        ResolveTensors(checkpoint.tensors(), model.config));
  BOLE_ASSIGN_OR_RETURN(Weights weights,
                        LoadWeights(tensors, model.config, backend));
  model.weights = std::make_unique<Weights>(std::move(weights));
  return model;
}

}  // namespace

absl::StatusOr<LoadedModel> LoadModel(const std::string& model,
                                      Backend& backend) {
  return IsSynthetic(model) ? MakeSynthetic(model, backend)
                            : LoadCheckpoint(model, backend);
}

absl::Status CheckModelName(const std::string& model) {
  if (IsSynthetic(model)) {
    BOLE_ASSIGN_OR_RETURN(const SyntheticSpec spec, ParseSyntheticSpec(model));
    return ConfigOfSize(spec.size).status();
  }
  std::error_code error;
  if (std::filesystem::is_directory(model, error)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(model, ": there is no such folder"));
}

std::string ModelName(const std::string& model) {
  if (IsSynthetic(model)) return model;
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(model, error);
  return error ? model : path.filename().string();
}

}  // namespace bole
