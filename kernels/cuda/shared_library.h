// A library that is not linked, but loaded when it is first needed.
#ifndef BOLE_KERNELS_CUDA_SHARED_LIBRARY_H_
#define BOLE_KERNELS_CUDA_SHARED_LIBRARY_H_

#include <string>

#include "absl/status/status.h"

namespace bole::cuda {

// Never unloaded.
class SharedLibrary {
 public:
  // `file` is a name that the loader looks for. `what` says in errors what the
  // library provides: "the GPU's matrix products".
  SharedLibrary(const char* file, const char* what);

  // Sets `function` to the function of that name.
  template <typename Function>
  void Find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(Address(name));
  }

  // UNAVAILABLE, with the loader's message, if the library is not installed or
  // lacks a function that was looked for.
  const absl::Status& status() const { return status_; }

 private:
  void* Address(const char* name);

  const std::string file_;
  void* library_;
  absl::Status status_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SHARED_LIBRARY_H_
