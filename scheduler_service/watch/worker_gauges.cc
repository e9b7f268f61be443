#include "scheduler_service/watch/worker_gauges.h"

#include <algorithm>
#include <cstddef>

#include "common/net/metric_families.h"

namespace bole {
namespace {

// A label besides that of the worker.
struct Label {
  const char* name;
  const char* value;
};
constexpr Label kNoLabel = {.name = nullptr, .value = nullptr};

struct Kind {
  const char* name;
  Label label;
  const char* help;
  double (*value)(const WorkerStatus& worker);
};

constexpr char kRequestsHelp[] =
    "Requests that run on the worker, by stage: prefill or decode.";
constexpr char kFallbackHelp[] =
    "1 while the policy does other than it was asked to for the worker, by "
    "reason: no_table (it has no table of costs), stale_table (rounds take "
    "other times than its table says, by more than half).";
constexpr char kPagesHelp[] =
    "KV pages of the worker, by state: held by requests, cached for later "
    "ones, free.";
constexpr char kSlotsHelp[] =
    "State slots of the worker, by state: held by requests, cached for later "
    "ones, free.";

double ShareUsed(const PoolStatus& pool) {
  if (pool.total == 0) return 0;
  return static_cast<double>(pool.total - pool.free) / pool.total;
}

// A pool counts what only the cache holds as free.
double HeldOf(const PoolStatus& pool) { return pool.total - pool.free; }

double UnusedOf(const PoolStatus& pool) { return pool.free - pool.cached; }

constexpr Kind kKinds[] = {
    {"bole_worker_up", kNoLabel, "1 while the worker is connected, else 0.",
     [](const WorkerStatus& worker) { return worker.connected ? 1.0 : 0.0; }},
    {"bole_worker_draining", kNoLabel,
     "1 while the worker is connected and gets no new requests.",
     [](const WorkerStatus& worker) { return worker.draining ? 1.0 : 0.0; }},
    {"bole_worker_epoch", kNoLabel,
     "Epoch of the last connection to the worker.",
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.epoch);
     }},
    {"bole_kv_cache_usage_ratio", kNoLabel,
     "Share of the worker's KV pages that is held, 0 to 1.",
     [](const WorkerStatus& worker) { return ShareUsed(worker.pages); }},
    {"bole_state_slots_used", kNoLabel,
     "State slots of the worker that are held.",
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.slots.total - worker.slots.free);
     }},
    {"bole_worker_pages",
     {"state", "held"},
     kPagesHelp,
     [](const WorkerStatus& worker) { return HeldOf(worker.pages); }},
    {"bole_worker_pages",
     {"state", "cached"},
     kPagesHelp,
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.pages.cached);
     }},
    {"bole_worker_pages",
     {"state", "free"},
     kPagesHelp,
     [](const WorkerStatus& worker) { return UnusedOf(worker.pages); }},
    {"bole_worker_slots",
     {"state", "held"},
     kSlotsHelp,
     [](const WorkerStatus& worker) { return HeldOf(worker.slots); }},
    {"bole_worker_slots",
     {"state", "cached"},
     kSlotsHelp,
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.slots.cached);
     }},
    {"bole_worker_slots",
     {"state", "free"},
     kSlotsHelp,
     [](const WorkerStatus& worker) { return UnusedOf(worker.slots); }},
    {"bole_worker_requests",
     {"stage", "prefill"},
     kRequestsHelp,
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.in_prefill);
     }},
    {"bole_worker_requests",
     {"stage", "decode"},
     kRequestsHelp,
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.running - worker.in_prefill);
     }},
    {"bole_policy_fallback",
     {"reason", "no_table"},
     kFallbackHelp,
     [](const WorkerStatus& worker) {
       return worker.policy_fallback == "no_table" ? 1.0 : 0.0;
     }},
    {"bole_policy_fallback",
     {"reason", "stale_table"},
     kFallbackHelp,
     [](const WorkerStatus& worker) {
       return worker.policy_fallback == "stale_table" ? 1.0 : 0.0;
     }},
    {"bole_prefix_cache_checkpoints", kNoLabel, "States that it holds.",
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.num_checkpoints);
     }},
    {"bole_prefix_cache_evicted_checkpoints", kNoLabel, "States that gave way.",
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.num_evicted);
     }},
    {"bole_prefix_cache_host_checkpoints", kNoLabel,
     "States that the worker's host holds.",
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.host.num_checkpoints);
     }},
    {"bole_prefix_cache_host_evicted_checkpoints", kNoLabel,
     "States that gave way on the host.",
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.host.num_evicted);
     }},
    {"bole_prefix_cache_host_pages", kNoLabel, "Pages that the host holds.",
     [](const WorkerStatus& worker) {
       const PoolStatus& pages = worker.host.pages;
       return static_cast<double>(pages.total - pages.free);
     }},
    {"bole_prefix_cache_host_hits", kNoLabel,
     "Requests that went on from a state of the host.",
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.host.num_hits);
     }},
    {"bole_prefix_cache_host_hits_tokens", kNoLabel,
     "Tokens that these need not have run, beyond those of the device.",
     [](const WorkerStatus& worker) {
       return static_cast<double>(worker.host.num_hit_tokens);
     }},
    {"bole_prefix_cache_host_written_bytes", kNoLabel,
     "Bytes copied to the host.",
     [](const WorkerStatus& worker) { return worker.host.bytes_to_host; }},
    {"bole_prefix_cache_host_read_bytes", kNoLabel,
     "Bytes copied back from there.",
     [](const WorkerStatus& worker) { return worker.host.bytes_from_host; }},
};

prometheus::Labels LabelsOf(const std::string& worker, const Label& more) {
  prometheus::Labels labels = {{"worker", worker}};
  if (more.name != nullptr) labels[more.name] = more.value;
  return labels;
}

}  // namespace

WorkerGauges::WorkerGauges(prometheus::Registry& registry)
    : info_(bole::Gauges(registry, "bole_worker_info",
                         "Always 1; the labels say which model the worker "
                         "serves, on what, and of which version it is.")) {
  for (const Kind& kind : kKinds) {
    families_.push_back(&bole::Gauges(registry, kind.name, kind.help));
  }
}

void WorkerGauges::Set(const std::vector<WorkerStatus>& workers) {
  for (const WorkerStatus& worker : workers) Set(worker);
  if (workers_.size() > workers.size()) RemoveAllBut(workers);
}

void WorkerGauges::Set(const WorkerStatus& worker) {
  Series& series = workers_[worker.name];
  for (size_t i = 0; i < families_.size(); ++i) {
    if (i == series.gauges.size()) {
      series.gauges.push_back(
          &families_[i]->Add(LabelsOf(worker.name, kKinds[i].label)));
    }
    series.gauges[i]->Set(kKinds[i].value(worker));
  }
  Tell(worker, series);
}

void WorkerGauges::Tell(const WorkerStatus& worker, Series& series) {
  if (worker.description == nullptr) return;
  if (worker.description == series.told && worker.model == series.model) return;
  if (series.info != nullptr) info_.Remove(series.info);
  series.told = worker.description;
  series.model = worker.model;
  series.info = &info_.Add({{"worker", worker.name},
                            {"model", worker.model},
                            {"device", worker.description->device},
                            {"version", worker.description->version}});
  series.info->Set(1);
}

void WorkerGauges::RemoveAllBut(const std::vector<WorkerStatus>& workers) {
  std::erase_if(workers_, [&](const auto& named) {
    const bool there = std::any_of(
        workers.begin(), workers.end(),
        [&](const auto& worker) { return worker.name == named.first; });
    if (there) return false;
    const Series& series = named.second;
    for (size_t i = 0; i < families_.size(); ++i) {
      families_[i]->Remove(series.gauges[i]);
    }
    if (series.info != nullptr) info_.Remove(series.info);
    return true;
  });
}

}  // namespace bole
