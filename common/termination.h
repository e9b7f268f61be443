// SIGTERM and SIGINT as events to wait for.
#ifndef BOLE_COMMON_TERMINATION_H_
#define BOLE_COMMON_TERMINATION_H_

#include <functional>

#include "absl/status/statusor.h"

namespace bole {

// Once it is created, SIGTERM and SIGINT no longer end the process but wait
// here. Create it first in main(), before anything starts a thread, since only
// threads started later inherit this.
//
// Not thread-safe: only the thread that made it may use it.
class Termination {
 public:
  // INTERNAL if the system has no descriptor left.
  static absl::StatusOr<Termination> Block();
  ~Termination();

  Termination(Termination&& other) noexcept;
  Termination& operator=(Termination&&) = delete;

  // Waits for a signal and consumes it.
  void Wait();

  // Runs `work` on a thread of its own and waits for it. If a signal comes
  // first, consumes it and calls `interrupt` once, which must make `work`
  // return soon. Returns whether a signal came.
  bool RunUntilSignal(const std::function<void()>& work,
                      const std::function<void()>& interrupt);

 private:
  explicit Termination(int signals) : signals_(signals) {}

  // Waits until there is a signal, which it consumes, or until `other`, a
  // descriptor or -1, can be read. Returns whether there was a signal.
  bool WaitBesides(int other);

  int signals_;  // A signalfd, or -1 once moved from.
};

}  // namespace bole

#endif  // BOLE_COMMON_TERMINATION_H_
