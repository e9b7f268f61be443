// A file that parses holds only tensors inside it, each as large as its shape,
// and every one can be converted or says why not.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "worker_service/model/safetensors.h"
#include "worker_service/model/tensor_view.h"

namespace bole {
namespace {

void CheckInside(const TensorView& tensor, std::span<const std::byte> file) {
  int64_t bytes = DtypeBytes(tensor.dtype);
  for (const int64_t dimension : tensor.shape) {
    BOLE_CHECK(dimension >= 0);
    bytes *= dimension;
  }
  BOLE_CHECK(static_cast<size_t>(bytes) == tensor.data.size());
  BOLE_CHECK(tensor.data.data() >= file.data());
  BOLE_CHECK(tensor.data.data() + tensor.data.size() <=
             file.data() + file.size());
}

// Reads every byte, in one of the two ways or through its rows.
void ReadAll(const TensorView& tensor) {
  const auto count = static_cast<size_t>(tensor.num_elements());
  std::vector<float> floats(count);
  std::vector<int64_t> integers(count);
  const bool is_float = ConvertToFloat(tensor, floats).ok();
  const bool is_integer = ConvertToInt64(tensor, integers).ok();
  BOLE_CHECK(!is_float || !is_integer);
  if (!tensor.shape.empty() && tensor.shape[0] > 0) {
    const TensorView last = Entry(tensor, tensor.shape[0] - 1);
    BOLE_CHECK(last.data.data() + last.data.size() ==
               tensor.data.data() + tensor.data.size());
  }
}

}  // namespace
}  // namespace bole

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span file = std::as_bytes(std::span(data, size));
  const absl::StatusOr<bole::TensorMap> tensors = bole::ParseSafetensors(file);
  if (!tensors.ok()) return 0;
  for (const auto& [name, tensor] : *tensors) {
    bole::CheckInside(tensor, file);
    bole::ReadAll(tensor);
  }
  return 0;
}
