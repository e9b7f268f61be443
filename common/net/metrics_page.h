// All metrics that one process exports to Prometheus.
#ifndef BOLE_COMMON_NET_METRICS_PAGE_H_
#define BOLE_COMMON_NET_METRICS_PAGE_H_

#include <memory>
#include <utility>
#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace bole {

// The families of several sources, one after the other. No two of them may have
// a family of the same name.
//
// Thread-safe once all are added, if the sources are.
class MetricsPage final : public prometheus::Collectable {
 public:
  void Add(std::shared_ptr<prometheus::Collectable> source) {
    sources_.push_back(std::move(source));
  }

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    for (const auto& source : sources_) {
      for (prometheus::MetricFamily& family : source->Collect()) {
        families.push_back(std::move(family));
      }
    }
    return families;
  }

 private:
  std::vector<std::shared_ptr<prometheus::Collectable>> sources_;
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_METRICS_PAGE_H_
