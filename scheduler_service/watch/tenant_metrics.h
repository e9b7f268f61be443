// Metrics of each tenant, for a limited number of tenants.
#ifndef BOLE_SCHEDULER_SERVICE_WATCH_TENANT_METRICS_H_
#define BOLE_SCHEDULER_SERVICE_WATCH_TENANT_METRICS_H_

#include <cstddef>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/registry.h"
#include "scheduler_service/watch/model_series.h"

namespace bole {

// The first kMaxTenants tenants have their own series; all others share
// "other", however many names clients make up. Requests without a tenant are
// "none".
//
// Thread-safe.
class TenantMetrics {
 public:
  static constexpr size_t kMaxTenants = 100;

  // `registry` must outlive this.
  explicit TenantMetrics(prometheus::Registry& registry);

  void Ended(const EndedRequest& request);

 private:
  std::string LabelOf(const std::string& tenant);

  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Counter>& tokens_;
  Mutex mutex_;
  std::set<std::string> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WATCH_TENANT_METRICS_H_
