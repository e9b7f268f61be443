#include "kernels/cuda/products/cublas_lt.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace bole::cuda {
namespace {

constexpr char kLibrary[] = "libcublasLt.so.13";

struct Loaded {
  CublasLt functions = {};
  absl::Status status;

  Loaded() {
    void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps one per thread.
      const char* why = dlerror();
      status = absl::UnavailableError(
          absl::StrCat("the GPU's matrix products cannot be loaded: ", why));
      return;
    }
    Find(library, "cublasLtGetStatusString", functions.GetStatusString);
    Find(library, "cublasLtCreate", functions.Create);
    Find(library, "cublasLtDestroy", functions.Destroy);
    Find(library, "cublasLtMatmulDescCreate", functions.MatmulDescCreate);
    Find(library, "cublasLtMatmulDescDestroy", functions.MatmulDescDestroy);
    Find(library, "cublasLtMatmulDescSetAttribute",
         functions.MatmulDescSetAttribute);
    Find(library, "cublasLtMatrixLayoutCreate", functions.MatrixLayoutCreate);
    Find(library, "cublasLtMatrixLayoutDestroy", functions.MatrixLayoutDestroy);
    Find(library, "cublasLtMatmulPreferenceCreate",
         functions.MatmulPreferenceCreate);
    Find(library, "cublasLtMatmulPreferenceDestroy",
         functions.MatmulPreferenceDestroy);
    Find(library, "cublasLtMatmulPreferenceSetAttribute",
         functions.MatmulPreferenceSetAttribute);
    Find(library, "cublasLtMatmulAlgoGetHeuristic",
         functions.MatmulAlgoGetHeuristic);
    Find(library, "cublasLtMatmul", functions.Matmul);
  }

  template <typename Function>
  void Find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function != nullptr || !status.ok()) return;
    status = absl::UnavailableError(
        absl::StrCat(kLibrary, " has no function ", name));
  }
};

}  // namespace

absl::StatusOr<const CublasLt*> CublasLt::Load() {
  static const auto* loaded = new Loaded;
  if (!loaded->status.ok()) return loaded->status;
  return &loaded->functions;
}

}  // namespace bole::cuda
