// The matrices of the GPU backend.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/matrix_uploads.h"
#include "kernels/cuda/products/int7_products.h"
#include "kernels/generated_element.h"

namespace bole::cuda {

absl::StatusOr<std::unique_ptr<DeviceMatrix>> CudaBackend::NewMatrix(
    int rows, int columns) const {
  // A rank's part may have no rows.
  const size_t size = std::max<size_t>(static_cast<size_t>(rows) * columns, 1);
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, size * ElementBytes(on_.type));
  if (error != cudaSuccess) {
    cudaGetLastError();
    return absl::ResourceExhaustedError(
        absl::StrCat("no room on the GPU for a matrix of ", rows, " by ",
                     columns, ": ", cudaGetErrorString(error)));
  }
  return std::make_unique<DeviceMatrix>(rows, columns, memory);
}

absl::StatusOr<const WeightMatrix*> CudaBackend::LoadMatrix(
    const MatrixSource& source) {
  if (uploads_ == nullptr) {
    BOLE_ASSIGN_OR_RETURN(uploads_,
                          MatrixUploads::Create(*this, device_, num_threads_));
  }
  BOLE_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMatrix> matrix,
                        NewMatrix(source.rows(), source.columns));
  BOLE_RETURN_IF_ERROR(uploads_->Upload(source, matrix->data, on_));
  matrices_.push_back(std::move(matrix));
  return matrices_.back().get();
}

absl::StatusOr<const WeightMatrix*> CudaBackend::GatherMatrix(
    const WeightMatrix& matrix, std::span<const int32_t> row) {
  const auto& from = static_cast<const DeviceMatrix&>(matrix);
  const int rows = static_cast<int>(row.size());
  if (rows == 0) {
    BOLE_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMatrix> none,
                          NewMatrix(0, from.columns));
    matrices_.push_back(std::move(none));
    return matrices_.back().get();
  }
  BOLE_ASSIGN_OR_RETURN(
      const DeviceMemory index,
      Allocate(sizeof(rows) + row.size_bytes(), "rows of a matrix"));
  int32_t* const count = static_cast<int32_t*>(index.get());
  BOLE_RETURN_IF_ERROR(Upload(count, &rows, sizeof(rows)));
  BOLE_RETURN_IF_ERROR(Upload(count + 1, row.data(), row.size_bytes()));
  const size_t bytes = row.size() * from.columns * ElementBytes(on_.type);
  BOLE_ASSIGN_OR_RETURN(DeviceMemory gathered,
                        Allocate(bytes, "rows of a matrix"));
  BOLE_RETURN_IF_ERROR(
      cuda::GatherRows({.rows = {count, rows},
                        .width = from.columns,
                        .index = count + 1,
                        .x = static_cast<const Activation*>(from.data),
                        .out = static_cast<Activation*>(gathered.get())},
                       on_));
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaStreamSynchronize(on_.stream), "rows of a matrix"));
  matrices_.push_back(
      std::make_unique<DeviceMatrix>(rows, from.columns, gathered.release()));
  return matrices_.back().get();
}

absl::StatusOr<const WeightMatrix*> CudaBackend::GenerateMatrix(
    const MatrixGenerator& generator) {
  BOLE_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMatrix> matrix,
                        NewMatrix(PartRows(generator), PartColumns(generator)));
  BOLE_RETURN_IF_ERROR(cuda::Generate(generator, matrix->data, on_));
  matrices_.push_back(std::move(matrix));
  return matrices_.back().get();
}

absl::StatusOr<const WeightMatrix*> CudaBackend::QuantizeMatrix(
    const WeightMatrix& matrix) {
  const auto kept =
      std::find_if(matrices_.begin(), matrices_.end(),
                   [&](const auto& owned) { return owned.get() == &matrix; });
  BOLE_CHECK(kept != matrices_.end() && (*kept)->int7 == nullptr);
  if (matrix.rows == 0) return kept->get();
  BOLE_RETURN_IF_ERROR(int7_products_->Quantize(**kept, on_));
  return kept->get();
}

size_t CudaBackend::MatrixBytes(const WeightMatrix& matrix) const {
  const bool has_int7 =
      static_cast<const DeviceMatrix&>(matrix).int7 != nullptr;
  return ElementBytes(on_.type) * static_cast<size_t>(matrix.rows) *
             matrix.columns +
         (has_int7 ? Int7Bytes(matrix.rows, matrix.columns) : 0);
}

}  // namespace bole::cuda
