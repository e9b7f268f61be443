#include "scheduler_service/door/door_metrics.h"

#include "common/net/metric_families.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"

namespace bole {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Registry;

struct DoorMetrics::Families {
  explicit Families(Registry& to) : registry(to) {}

  Registry& registry;

  Family<Counter>& rejected =
      Counters(registry, "bole_rejected_total",
               "Requests that were not admitted, by reason.");
  Family<Counter>& texts_rejected = Counters(
      registry, "bole_text_calls_rejected_total",
      "Calls of Tokenize and Detokenize that were not answered, by reason.");
  Family<Counter>& denied =
      Counters(registry, "bole_calls_denied_total",
               "Calls over gRPC and HTTP that no service heard of, because "
               "their token was none or not enough.");
  Family<Counter>& readers_ended = Counters(
      registry, "bole_slow_readers_ended_total",
      "Calls that were ended because their client read too slowly, by reason.");
  Gauge& open_requests =
      Gauges(registry, "bole_open_requests",
             "Generate calls that are open, those that are read slowly "
             "included.")
          .Add({});
  Family<Gauge>& output_bytes =
      Gauges(registry, "bole_output_bytes",
             "Output of open calls in memory: not yet taken by the client, or "
             "kept for the complete message.");
  Gauge& undelivered = output_bytes.Add({{"state", "undelivered"}});
  Gauge& kept = output_bytes.Add({{"state", "kept"}});
  Family<Gauge>& long_messages =
      Gauges(registry, "bole_long_messages_waiting",
             "Long messages that wait to be read, of Generate, and of Tokenize "
             "and Detokenize.");
  Gauge& long_generates = long_messages.Add({{"of", "generate"}});
  Gauge& long_texts = long_messages.Add({{"of", "text"}});
};

DoorMetrics::DoorMetrics(Registry& registry)
    : families_(std::make_unique<Families>(registry)) {
  // A rate needs its zero before the first event.
  for (const RefusalReason reason : kRefusalReasons) {
    families_->rejected.Add({{"reason", NameOf(reason)}});
  }
  for (const RefusalReason reason :
       {RefusalReason::kLongMessages, RefusalReason::kDraining,
        RefusalReason::kCancelled}) {
    families_->texts_rejected.Add({{"reason", NameOf(reason)}});
  }
  for (const RefusalReason reason :
       {RefusalReason::kUnauthenticated, RefusalReason::kForbidden}) {
    families_->denied.Add({{"reason", NameOf(reason)}});
  }
  for (const ReaderFault fault : kReaderFaults) {
    families_->readers_ended.Add({{"reason", NameOf(fault)}});
  }
}

DoorMetrics::~DoorMetrics() = default;

void DoorMetrics::Refused(RefusalReason reason) {
  families_->rejected.Add({{"reason", NameOf(reason)}}).Increment();
}

void DoorMetrics::TextRefused(RefusalReason reason) {
  families_->texts_rejected.Add({{"reason", NameOf(reason)}}).Increment();
}

void DoorMetrics::Denied(RefusalReason reason) {
  families_->denied.Add({{"reason", NameOf(reason)}}).Increment();
}

void DoorMetrics::ReaderEnded(ReaderFault fault) {
  families_->readers_ended.Add({{"reason", NameOf(fault)}}).Increment();
}

void DoorMetrics::SetLoad(const DoorLoad& load) {
  families_->open_requests.Set(static_cast<double>(load.open_requests));
  families_->undelivered.Set(static_cast<double>(load.undelivered_bytes));
  families_->kept.Set(static_cast<double>(load.kept_bytes));
  families_->long_generates.Set(static_cast<double>(load.long_generates));
  families_->long_texts.Set(static_cast<double>(load.long_texts));
}

}  // namespace bole
