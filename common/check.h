// Checks of our own invariants. What a caller or the world can get wrong is an
// absl::Status instead.
#ifndef BOLE_COMMON_CHECK_H_
#define BOLE_COMMON_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace bole::internal {

[[noreturn]] inline void CheckFailed(const char* file, int line,
                                     const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace bole::internal

// Stops the process if `condition` is false, naming the place and the condition
// on stderr. It is active in every build.
#define BOLE_CHECK(condition)   \
  (static_cast<bool>(condition) \
       ? static_cast<void>(0)   \
       : ::bole::internal::CheckFailed(__FILE__, __LINE__, #condition))

// The same for conditions too expensive to test in production: with NDEBUG it
// is compiled and never evaluated.
#ifdef NDEBUG
#define BOLE_DCHECK(condition) \
  static_cast<void>(true || static_cast<bool>(condition))
#else
#define BOLE_DCHECK(condition) BOLE_CHECK(condition)
#endif

#endif  // BOLE_COMMON_CHECK_H_
