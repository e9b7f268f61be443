// Reads the safetensors format. The input may be hostile.
#ifndef BOLE_WORKER_SERVICE_MODEL_SAFETENSORS_H_
#define BOLE_WORKER_SERVICE_MODEL_SAFETENSORS_H_

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "worker_service/model/mapped_file.h"
#include "worker_service/model/tensor_view.h"

namespace bole {

// The tensors of a file whose whole content is `file`; the views point into it.
//
// INVALID_ARGUMENT, naming the tensor, what was expected and what was found: a
// header that does not fit the file or is not the JSON it should be, a name
// twice, an unknown element type, a negative or overflowing shape, offsets
// outside the data, a size that is not the shape's, or two tensors that share
// bytes. Gaps between tensors are allowed.
absl::StatusOr<TensorMap> ParseSafetensors(std::span<const std::byte> file);

// A mapped file and its tensors. Immutable, so threads may share it. Opening
// reads the header only; a tensor's pages are read when its data is.
class SafetensorsFile {
 public:
  // Errors of MappedFile::Open and of ParseSafetensors, starting with `path`.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  // The views stay valid as long as this object or one it was moved to lives.
  const TensorMap& tensors() const { return tensors_; }

 private:
  SafetensorsFile(MappedFile file, TensorMap tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {}

  MappedFile file_;
  TensorMap tensors_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_SAFETENSORS_H_
