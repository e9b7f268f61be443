// Short forms of what prometheus-cpp builds families with.
#ifndef BOLE_COMMON_NET_METRIC_FAMILIES_H_
#define BOLE_COMMON_NET_METRIC_FAMILIES_H_

#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace bole {

// The family of that name, which is registered if it is new. It lives as long
// as the registry.
inline prometheus::Family<prometheus::Counter>& Counters(
    prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

inline prometheus::Family<prometheus::Gauge>& Gauges(
    prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

inline prometheus::Family<prometheus::Histogram>& Histograms(
    prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

}  // namespace bole

#endif  // BOLE_COMMON_NET_METRIC_FAMILIES_H_
