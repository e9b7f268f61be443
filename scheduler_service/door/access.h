// Decides what a caller may do, by its bearer token.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_ACCESS_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_ACCESS_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/file_watch.h"
#include "common/mutex.h"
#include "prometheus/registry.h"
#include "scheduler_service/door/grant_table.h"
#include "scheduler_service/door/identity.h"
#include "scheduler_service/door/tenant_limits.h"
#include "scheduler_service/jobs/refusal.h"

namespace bole {

struct AccessOptions {
  std::string path;  // A file that GrantTable::Parse() reads.
  std::chrono::milliseconds poll_interval{1000};
  // Called by a thread to say that the file was read again, or why it was not.
  // May be null.
  std::function<void(const std::string&)> note = nullptr;
};

// Identifies callers by the tokens of a file. The file is read again when it
// has changed and then stayed the same for an interval, so that it may be
// written in place. A file that is not a valid table changes nothing. Calls
// that were let in are not ended by a change.
//
// Thread-safe.
class Access {
 public:
  // Returns an error that names the file if it is not a valid table, or if
  // everybody may write it. `registry` must outlive the object.
  static absl::StatusOr<std::unique_ptr<Access>> Open(
      AccessOptions options, prometheus::Registry& registry);
  ~Access();

  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

  // Returns the caller whose token is in `authorization`, which is "Bearer
  // TOKEN".
  //
  //   kUnauthenticated  it has none that is known.
  //   kForbidden        the token lacks `scope`, if there is one; or `tenant`,
  //                     if it is not empty, is not the token's. There are no
  //                     names below a tenant's: each would have a share of its
  //                     own of what tenants share.
  std::variant<Identity, Refusal> Authorize(std::string_view authorization,
                                            std::string_view tenant,
                                            std::optional<Scope> scope) const;

  // The same as in TenantAccount. All tokens of a tenant share its limits.
  std::optional<Refusal> Check(const Identity& who);
  std::variant<std::shared_ptr<TenantSeat>, Refusal> Enter(const Identity& who);

 private:
  struct Counters;

  Access(AccessOptions options, GrantTable table, std::string stamp,
         prometheus::Registry& registry);

  void Reload();
  std::shared_ptr<const GrantTable> table() const;
  TenantLimits LimitsOf(const Identity& who) const;
  std::shared_ptr<TenantAccount> AccountOf(const std::string& tenant);

  const AccessOptions options_;
  const std::unique_ptr<Counters> counters_;

  mutable Mutex mutex_;
  std::shared_ptr<const GrantTable> table_ ABSL_GUARDED_BY(mutex_);
  // One for each tenant that was ever in the file.
  std::map<std::string, std::shared_ptr<TenantAccount>> accounts_
      ABSL_GUARDED_BY(mutex_);

  FileWatch watch_;  // Uses the rest, so it comes last.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_ACCESS_H_
