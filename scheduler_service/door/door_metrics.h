// The metrics of refused calls, and of the memory that calls hold.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_DOOR_METRICS_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_DOOR_METRICS_H_

#include <cstddef>
#include <memory>

#include "prometheus/registry.h"
#include "scheduler_service/door/watched_call.h"
#include "scheduler_service/jobs/refusal.h"

namespace bole {

struct DoorLoad {
  size_t open_requests = 0;
  size_t undelivered_bytes = 0;
  size_t kept_bytes = 0;
  size_t long_generates = 0;  // Messages that wait to be read.
  size_t long_texts = 0;      // The same for Tokenize and Detokenize.
};

// All methods may be called from any thread. Names and units: README.md.
class DoorMetrics {
 public:
  // `registry` must outlive the metrics. One object for each registry.
  explicit DoorMetrics(prometheus::Registry& registry);
  ~DoorMetrics();

  // A Generate call was not admitted.
  void Refused(RefusalReason reason);
  // A call of Tokenize or Detokenize was not answered.
  void TextRefused(RefusalReason reason);
  // A call was refused before its method or route was known to any service.
  void Denied(RefusalReason reason);
  // A call was ended because of how it was read.
  void ReaderEnded(ReaderFault fault);
  void SetLoad(const DoorLoad& load);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_DOOR_METRICS_H_
