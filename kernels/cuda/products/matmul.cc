#include "kernels/cuda/products/matmul.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/check.h"

namespace bole::cuda {
namespace {

constexpr size_t kWorkspaceBytes = 32 << 20;

absl::Status ToStatus(const CublasLt& lt, cublasStatus_t status,
                      std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(absl::string_view(what.data(), what.size()),
                   ": cuBLASLt: ", lt.GetStatusString(status)));
}

cudaDataType_t DataType(ElementType type) {
  return type == ElementType::kFloat32 ? CUDA_R_32F : CUDA_R_16BF;
}

}  // namespace

DeviceMatrix::~DeviceMatrix() {
  cudaFree(data);
  cudaFree(int7);
}

// cuBLASLt is column-major: out^T [rows, N] = W [rows, columns] x^T.
struct MatMuls::Plan {
  explicit Plan(const CublasLt& functions) : lt(functions) {}

  const CublasLt& lt;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t weight = nullptr;
  cublasLtMatrixLayout_t x = nullptr;
  cublasLtMatrixLayout_t out = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};

  ~Plan() {
    if (out != nullptr) lt.MatrixLayoutDestroy(out);
    if (x != nullptr) lt.MatrixLayoutDestroy(x);
    if (weight != nullptr) lt.MatrixLayoutDestroy(weight);
    if (operation != nullptr) lt.MatmulDescDestroy(operation);
  }

  absl::Status Describe(const Product& p, ElementType type);
  absl::Status Choose(cublasLtHandle_t handle);
};

absl::Status MatMuls::Plan::Describe(const Product& p, ElementType type) {
  BOLE_RETURN_IF_ERROR(ToStatus(
      lt, lt.MatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
      "product"));
  const cublasOperation_t transposed = CUBLAS_OP_T;
  BOLE_RETURN_IF_ERROR(
      ToStatus(lt,
               lt.MatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA,
                                         &transposed, sizeof(transposed)),
               "product"));
  const auto layout = [this](cublasLtMatrixLayout_t* matrix,
                             cudaDataType_t element, int rows, int columns) {
    return ToStatus(lt,
                    lt.MatrixLayoutCreate(matrix, element, rows, columns, rows),
                    "layout of a product");
  };
  const cudaDataType_t element = DataType(type);
  BOLE_RETURN_IF_ERROR(layout(&weight, element, p.columns, p.rows));
  BOLE_RETURN_IF_ERROR(layout(&x, element, p.columns, p.num_rows));
  return layout(&out, p.float_out ? CUDA_R_32F : element, p.rows, p.num_rows);
}

absl::Status MatMuls::Plan::Choose(cublasLtHandle_t handle) {
  cublasLtMatmulPreference_t preference = nullptr;
  BOLE_RETURN_IF_ERROR(
      ToStatus(lt, lt.MatmulPreferenceCreate(&preference), "preference"));
  lt.MatmulPreferenceSetAttribute(preference,
                                  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                  &kWorkspaceBytes, sizeof(kWorkspaceBytes));
  cublasLtMatmulHeuristicResult_t best = {};
  int num_found = 0;
  const cublasStatus_t status = lt.MatmulAlgoGetHeuristic(
      handle, operation, weight, x, out, out, preference, 1, &best, &num_found);
  lt.MatmulPreferenceDestroy(preference);
  BOLE_RETURN_IF_ERROR(ToStatus(lt, status, "choice of an algorithm"));
  if (num_found == 0) {
    return absl::UnimplementedError("cuBLASLt has no algorithm for a product");
  }
  algorithm = best.algo;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<MatMuls>> MatMuls::Create() {
  BOLE_ASSIGN_OR_RETURN(const CublasLt* lt, CublasLt::Load());
  cublasLtHandle_t handle = nullptr;
  BOLE_RETURN_IF_ERROR(ToStatus(*lt, lt->Create(&handle), "start of cuBLASLt"));
  void* workspace = nullptr;
  BOLE_RETURN_IF_ERROR(cuda::ToStatus(cudaMalloc(&workspace, kWorkspaceBytes),
                                      "workspace of products"));
  BOLE_ASSIGN_OR_RETURN(std::unique_ptr<StreamedProducts> streamed,
                        StreamedProducts::Create());
  return std::unique_ptr<MatMuls>(
      new MatMuls(*lt, handle, workspace, std::move(streamed)));
}

MatMuls::MatMuls(const CublasLt& lt, cublasLtHandle_t handle, void* workspace,
                 std::unique_ptr<StreamedProducts> streamed)
    : lt_(lt),
      handle_(handle),
      workspace_(workspace),
      streamed_(std::move(streamed)) {}

MatMuls::~MatMuls() {
  plans_.clear();
  cudaFree(workspace_);
  lt_.Destroy(handle_);
}

absl::StatusOr<const MatMuls::Plan*> MatMuls::PlanFor(const Product& product,
                                                      ElementType type) {
  const Key key(product.num_rows, product.rows, product.columns,
                product.float_out, type);
  std::unique_ptr<Plan>& plan = plans_[key];
  if (plan == nullptr) {
    auto made = std::make_unique<Plan>(lt_);
    BOLE_RETURN_IF_ERROR(made->Describe(product, type));
    BOLE_RETURN_IF_ERROR(made->Choose(handle_));
    plan = std::move(made);
  }
  return plan.get();
}

absl::Status MatMuls::Run(const Product& product, const Launch& on) {
  // products_bench compares the ways.
  return streamed_->Choose(product, on.type) == ProductWay::kLibrary
             ? RunLibrary(product, on)
             : streamed_->Run(product, on);
}

absl::Status MatMuls::RunStreamed(const Product& product, const Launch& on) {
  if (streamed_->Takes(product, on.type)) return streamed_->Run(product, on);
  return absl::UnimplementedError(
      absl::StrCat("no streamed product of ", product.num_rows, " rows with ",
                   product.rows, " by ", product.columns, " on this GPU"));
}

absl::Status MatMuls::RunLibrary(const Product& product, const Launch& on) {
  BOLE_ASSIGN_OR_RETURN(const Plan* plan, PlanFor(product, on.type));
  const float alpha = 1;
  const float beta = product.accumulate ? 1 : 0;
  return ToStatus(
      lt_,
      lt_.Matmul(handle_, plan->operation, &alpha, product.weight, plan->weight,
                 product.x, plan->x, &beta, product.out, plan->out, product.out,
                 plan->out, &plan->algorithm, workspace_, kWorkspaceBytes,
                 on.stream),
      absl::StrCat("product of ", product.num_rows, " rows with ", product.rows,
                   " by ", product.columns)
          .c_str());
}

}  // namespace bole::cuda
