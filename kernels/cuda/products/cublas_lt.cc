#include "kernels/cuda/products/cublas_lt.h"

#include "absl/status/status.h"
#include "kernels/cuda/shared_library.h"

namespace bole::cuda {
namespace {

struct Loaded {
  CublasLt functions = {};
  absl::Status status;

  Loaded() {
    SharedLibrary library("libcublasLt.so.13", "the GPU's matrix products");
    library.Find("cublasLtGetStatusString", functions.GetStatusString);
    library.Find("cublasLtCreate", functions.Create);
    library.Find("cublasLtDestroy", functions.Destroy);
    library.Find("cublasLtMatmulDescCreate", functions.MatmulDescCreate);
    library.Find("cublasLtMatmulDescDestroy", functions.MatmulDescDestroy);
    library.Find("cublasLtMatmulDescSetAttribute",
                 functions.MatmulDescSetAttribute);
    library.Find("cublasLtMatrixLayoutCreate", functions.MatrixLayoutCreate);
    library.Find("cublasLtMatrixLayoutDestroy", functions.MatrixLayoutDestroy);
    library.Find("cublasLtMatmulPreferenceCreate",
                 functions.MatmulPreferenceCreate);
    library.Find("cublasLtMatmulPreferenceDestroy",
                 functions.MatmulPreferenceDestroy);
    library.Find("cublasLtMatmulPreferenceSetAttribute",
                 functions.MatmulPreferenceSetAttribute);
    library.Find("cublasLtMatmulAlgoGetHeuristic",
                 functions.MatmulAlgoGetHeuristic);
    library.Find("cublasLtMatmul", functions.Matmul);
    status = library.status();
  }
};

}  // namespace

absl::StatusOr<const CublasLt*> CublasLt::Load() {
  static const auto* loaded = new Loaded;
  if (!loaded->status.ok()) return loaded->status;
  return &loaded->functions;
}

}  // namespace bole::cuda
