#include "scheduler_service/watch/share_metrics.h"

#include <cstddef>
#include <cstdint>

namespace bole {
namespace {

void SetTo(int64_t value, prometheus::Counter& counter) {
  counter.Increment(static_cast<double>(value) - counter.Value());
}

}  // namespace

ShareMetrics::ShareMetrics(prometheus::Registry& registry)
    : workers_(prometheus::BuildGauge()
                   .Name("bole_pool_workers")
                   .Help("Workers of a shared pool, by model and state: known; "
                         "due, as many as are this scheduler's share; held, "
                         "those that it has; giving_back, those that leave it.")
                   .Register(registry)),
      schedulers_(prometheus::BuildGauge()
                      .Name("bole_schedulers")
                      .Help("Schedulers that share the workers, this one "
                            "included, by state: living, leaving, silent.")
                      .Register(registry)),
      claimed_(prometheus::BuildCounter()
                   .Name("bole_workers_claimed_total")
                   .Help("Times that a shared worker was claimed.")
                   .Register(registry)
                   .Add({})),
      given_back_(prometheus::BuildCounter()
                      .Name("bole_workers_given_back_total")
                      .Help("Times that a shared worker was given back.")
                      .Register(registry)
                      .Add({})) {}

void ShareMetrics::Set(const PoolShares& shares, const PeerView& peers) {
  for (const ModelShare& share : shares.models) {
    const auto set = [&](const char* state, int workers) {
      workers_.Add({{"model", share.model}, {"state", state}}).Set(workers);
    };
    set("known", share.workers);
    set("due", share.share);
    set("held", share.held);
    set("giving_back", share.giving_back);
  }
  const auto set = [&](const char* state, size_t count) {
    schedulers_.Add({{"state", state}}).Set(static_cast<double>(count));
  };
  set("living", peers.living.size());
  set("leaving", peers.leaving.size());
  set("silent", peers.silent.size());
  SetTo(shares.num_claimed, claimed_);
  SetTo(shares.num_given_back, given_back_);
}

}  // namespace bole
