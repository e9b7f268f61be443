#include "kernels/cuda/shared_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace bole::cuda {

SharedLibrary::SharedLibrary(const char* file, const char* what)
    : file_(file), library_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
  if (library_ != nullptr) return;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps one per thread.
  const char* why = dlerror();
  status_ =
      absl::UnavailableError(absl::StrCat(what, " cannot be loaded: ", why));
}

void* SharedLibrary::Address(const char* name) {
  if (library_ == nullptr) return nullptr;
  void* const address = dlsym(library_, name);
  if (address == nullptr && status_.ok()) {
    status_ =
        absl::UnavailableError(absl::StrCat(file_, " has no function ", name));
  }
  return address;
}

}  // namespace bole::cuda
