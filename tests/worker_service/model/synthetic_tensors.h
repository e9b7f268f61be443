// The names and shapes of a checkpoint, written down independently of what
// reads them, for any size of model.
#ifndef BOLE_TESTS_WORKER_SERVICE_MODEL_SYNTHETIC_TENSORS_H_
#define BOLE_TESTS_WORKER_SERVICE_MODEL_SYNTHETIC_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "worker_service/model/model_config.h"
#include "worker_service/model/tensor_view.h"

namespace bole {

struct SyntheticLayout {
  std::string prefix = "model.language_model.";
  bool stacked_experts = true;          // In the layers.
  bool stacked_drafter_experts = true;  // In the drafter.
  bool has_drafter = true;
};

// BF16 tensors whose data lies in reserved addresses that hold nothing: it may
// be sliced, and a read of it stops the process. So full-size checkpoints cost
// no memory.
class SyntheticTensors {
 public:
  SyntheticTensors(const ModelConfig& config, const SyntheticLayout& layout);
  ~SyntheticTensors();

  SyntheticTensors(const SyntheticTensors&) = delete;
  SyntheticTensors& operator=(const SyntheticTensors&) = delete;

  const TensorMap& tensors() const { return tensors_; }

  // All elements of the tensors whose name starts with `prefix`.
  int64_t NumElements(const std::string& prefix) const;

 private:
  void Add(const std::string& name, std::vector<int64_t> shape);
  void AddAttention(const std::string& prefix);
  void AddGdn(const std::string& prefix);
  void AddGatedMlp(const std::string& prefix, int64_t width);
  void AddFeedForward(const std::string& prefix, bool stacked);

  const ModelConfig config_;
  std::span<const std::byte> reserved_;
  TensorMap tensors_;
};

// The published sizes: "0.8B", "2B", "4B", "9B", "27B", "35B-A3B", "122B-A10B",
// "397B-A17B".
ModelConfig PublishedConfig(const std::string& size);

}  // namespace bole

#endif  // BOLE_TESTS_WORKER_SERVICE_MODEL_SYNTHETIC_TENSORS_H_
