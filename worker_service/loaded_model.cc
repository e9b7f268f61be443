#include "worker_service/loaded_model.h"

#include <utility>

#include "common/status_macros.h"
#include "worker_service/model/checkpoint.h"
#include "worker_service/model/checkpoint_tensors.h"

namespace bole {

absl::StatusOr<LoadedModel> LoadModel(const std::string& directory,
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

}  // namespace bole
