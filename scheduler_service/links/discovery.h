// Finds the addresses of a name, now and later.
#ifndef BOLE_SCHEDULER_SERVICE_LINKS_DISCOVERY_H_
#define BOLE_SCHEDULER_SERVICE_LINKS_DISCOVERY_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"

namespace bole {

// Returns the numeric addresses of a host by getaddrinfo(). It takes only those
// of the IP version that is preferred, so that a machine with both is there
// once. UNAVAILABLE if the host is not known or cannot be looked up. Blocks for
// as long as the resolver waits, which is many seconds if no name server
// answers.
absl::StatusOr<std::vector<std::string>> LookUpHost(const std::string& host);

struct DiscoveryOptions {
  std::string name;  // "HOST:PORT", such as "bole-workers:7101".
  std::chrono::milliseconds interval{5'000};  // Between two lookups.
  std::function<absl::StatusOr<std::vector<std::string>>(
      const std::string& host)>
      look_up = LookUpHost;
};

// Looks a name up again and again, on a thread of its own. An IPv4 address, an
// IPv6 address in brackets, and "localhost" are reported once as they are, by
// Start(), and never looked up.
//
// Both functions are called by that thread, never by two at a time, and not
// after the destructor.
class Discovery {
 public:
  // Sorted numeric addresses, each once, and at least one: "10.0.0.7:7101",
  // "[fd00::7]:7101". Called after the first lookup that succeeds, and then
  // whenever the set has changed.
  using OnChange = std::function<void(const std::vector<std::string>& found)>;
  // Called after each lookup that failed or found nothing; the last set stays
  // valid.
  using OnError = std::function<void(const absl::Status& why)>;

  // INVALID_ARGUMENT, if the name is not HOST:PORT with a port from 1 to 65535.
  static absl::StatusOr<std::unique_ptr<Discovery>> Start(
      DiscoveryOptions options, OnChange on_change, OnError on_error);
  ~Discovery();  // Waits for a lookup that runs.

  Discovery(const Discovery&) = delete;
  Discovery& operator=(const Discovery&) = delete;

 private:
  Discovery(std::string host, std::string port, DiscoveryOptions options,
            OnChange on_change, OnError on_error);

  void Run();
  void LookUp();
  // Returns false if the object is being destroyed.
  bool WaitForNext();

  const std::string host_;  // Without brackets.
  const std::string port_;
  const DiscoveryOptions options_;
  const OnChange on_change_;
  const OnError on_error_;

  std::vector<std::string> last_;  // Used by the thread only.

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // Uses the rest: last. None for an address.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_LINKS_DISCOVERY_H_
