#include "scheduler_service/watch/tenant_metrics.h"

#include "absl/status/status.h"
#include "common/net/metric_families.h"

namespace bole {

TenantMetrics::TenantMetrics(prometheus::Registry& registry)
    : requests_(Counters(registry, "bole_tenant_requests_total",
                         "Admitted requests that ended, by tenant and gRPC "
                         "status code.")),
      tokens_(Counters(registry, "bole_tenant_tokens_total",
                       "Tokens of requests that ended, by tenant and kind: "
                       "prompt, generation.")) {
  requests_.Add({{"tenant", "none"}, {"code", "OK"}});
  tokens_.Add({{"tenant", "none"}, {"kind", "prompt"}});
  tokens_.Add({{"tenant", "none"}, {"kind", "generation"}});
}

void TenantMetrics::Ended(const EndedRequest& request) {
  const std::string tenant = LabelOf(request.tenant);
  requests_
      .Add({{"tenant", tenant},
            {"code", absl::StatusCodeToString(request.status.code())}})
      .Increment();
  tokens_.Add({{"tenant", tenant}, {"kind", "prompt"}})
      .Increment(request.prompt_tokens);
  tokens_.Add({{"tenant", tenant}, {"kind", "generation"}})
      .Increment(request.output_tokens);
}

std::string TenantMetrics::LabelOf(const std::string& tenant) {
  if (tenant.empty()) return "none";
  MutexLock lock(mutex_);
  if (known_.contains(tenant)) return tenant;
  if (known_.size() == kMaxTenants) return "other";
  known_.insert(tenant);
  return tenant;
}

}  // namespace bole
