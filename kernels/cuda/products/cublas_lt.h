// cuBLASLt, loaded when it is first needed.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_CUBLAS_LT_H_
#define BOLE_KERNELS_CUDA_PRODUCTS_CUBLAS_LT_H_

#include "absl/status/statusor.h"
#include "cublasLt.h"

namespace bole::cuda {

// The functions that products use. cuBLASLt is not linked: its thread-local
// memory would be part of every thread's stack, and would leave nothing of the
// small stacks that an HTTP server requests.
struct CublasLt {
  decltype(&cublasLtGetStatusString) GetStatusString;
  decltype(&cublasLtCreate) Create;
  decltype(&cublasLtDestroy) Destroy;
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate;
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy;
  decltype(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute;
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate;
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy;
  decltype(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate;
  decltype(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute;
  decltype(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic;
  decltype(&cublasLtMatmul) Matmul;

  // One instance serves the whole process, which never unloads it. UNAVAILABLE,
  // with the loader's message, if the library is not installed.
  static absl::StatusOr<const CublasLt*> Load();
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_CUBLAS_LT_H_
