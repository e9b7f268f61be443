// Writes the safetensors format.
#ifndef BOLE_WORKER_SERVICE_MODEL_SAFETENSORS_WRITER_H_
#define BOLE_WORKER_SERVICE_MODEL_SAFETENSORS_WRITER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker_service/model/tensor_view.h"

namespace bole {

// Views of values in memory, for writing. They do not own them.
TensorView FloatTensor(std::span<const float> values,
                       std::vector<int64_t> shape);
TensorView Int32Tensor(std::span<const int32_t> values,
                       std::vector<int64_t> shape);

// Writes a file of `tensors` under the names of the map, without gaps and with
// every element aligned to its size. `path` holds either its old content or all
// of the new: the bytes are written to a temporary file in the same folder,
// which is renamed once it is complete on the disk and removed on an error.
//
// INVALID_ARGUMENT: a name is not UTF-8 or is "__metadata__", or the size of
// the data does not match the shape. Otherwise the error of the system call.
absl::Status WriteSafetensors(const std::string& path,
                              const TensorMap& tensors);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_SAFETENSORS_WRITER_H_
