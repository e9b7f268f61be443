// Models of random weights that four ranks can divide.
#ifndef BOLE_TESTS_WORKER_SERVICE_RANKS_RANDOM_MODEL_H_
#define BOLE_TESTS_WORKER_SERVICE_RANKS_RANDOM_MODEL_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker_service/loading/loaded_model.h"
#include "worker_service/model/model_config.h"
#include "worker_service/model/tensor_view.h"

namespace bole::testing {

// Four layers, of which one is full attention, and a drafter. 4 key heads with
// 3 value heads each, 8 query heads and 2 KV heads, so that four ranks have
// copies of KV heads; 1300 tokens, so that the last of four ranks has no rows
// of the head.
ModelConfig SmallDenseConfig();
// The same with 6 experts of 64, of which a token has 2, and one of 96.
ModelConfig SmallMoeConfig();

// A checkpoint in memory whose weights are of such sizes that every layer
// changes the logits.
class RandomModel {
 public:
  RandomModel(const ModelConfig& config, uint32_t seed);

  // What the backend's rank has of it; all tokens of the vocabulary are valid.
  absl::StatusOr<LoadedModel> Load(Backend& backend) const;

 private:
  const ModelConfig config_;
  std::map<std::string, std::vector<float>> data_;
  TensorMap tensors_;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_WORKER_SERVICE_RANKS_RANDOM_MODEL_H_
