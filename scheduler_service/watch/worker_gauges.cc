#include "scheduler_service/watch/cache_metrics.h"

#include <cstddef>

namespace bole {
namespace {

struct Kind {
  const char* name;
  const char* help;
  double (*value)(const WorkerStatus& worker);
};

constexpr Kind kKinds[] = {
    {"bole_prefix_cache_checkpoints", "States that it holds.",
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.num_checkpoints);
     }},
    {"bole_prefix_cache_evicted_checkpoints", "States that gave way.",
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.num_evicted);
     }},
    {"bole_prefix_cache_host_checkpoints",
     "States that the worker's host holds.",
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.host.num_checkpoints);
     }},
    {"bole_prefix_cache_host_evicted_checkpoints",
     "States that gave way on the host.",
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.host.num_evicted);
     }},
    {"bole_prefix_cache_host_pages", "Pages that the host holds.",
     [](const WorkerStatus& worker) {
       const PoolStatus& pages = worker.host.pages;
       return static_cast<double>(pages.total - pages.free);
     }},
    {"bole_prefix_cache_host_hits",
     "Requests that went on from a state of the host.",
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.host.num_hits);
     }},
    {"bole_prefix_cache_host_hits_tokens",
     "Tokens that these need not have run, beyond those of the device.",
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.host.num_hit_tokens);
     }},
    {"bole_prefix_cache_host_written_bytes", "Bytes copied to the host.",
     [](const WorkerStatus& worker) { return worker.host.bytes_to_host; }},
    {"bole_prefix_cache_host_read_bytes", "Bytes copied back from there.",
     [](const WorkerStatus& worker) { return worker.host.bytes_from_host; }},
};

}  // namespace

CacheMetrics::CacheMetrics(prometheus::Registry& registry) {
  for (const Kind& kind : kKinds) {
    families_.push_back(
        &prometheus::BuildGauge().Name(kind.name).Help(kind.help).Register(
            registry));
  }
}

void CacheMetrics::Set(const WorkerStatus& worker) {
  std::vector<prometheus::Gauge*>& gauges = workers_[worker.name];
  for (size_t i = 0; i < families_.size(); ++i) {
    if (i == gauges.size()) {
      gauges.push_back(&families_[i]->Add({{"worker", worker.name}}));
    }
    gauges[i]->Set(kKinds[i].value(worker));
  }
}

void CacheMetrics::Remove(const std::string& worker) {
  const auto at = workers_.find(worker);
  if (at == workers_.end()) return;
  for (size_t i = 0; i < families_.size(); ++i) {
    families_[i]->Remove(at->second[i]);
  }
  workers_.erase(at);
}

}  // namespace bole
