// Calls as seen by the bounds on their memory.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_WATCHED_CALL_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_WATCHED_CALL_H_

#include <array>
#include <cstddef>
#include <optional>

#include "scheduler_service/jobs/request.h"

namespace bole {

// Why the server ends a call that could still be answered.
enum class ReaderFault {
  kBehind,    // More output of the call waits than one call may have.
  kStalled,   // The client did not take a message for too long.
  kDoorFull,  // All calls together hold too much, and this one the most.
};

inline constexpr std::array kReaderFaults = {
    ReaderFault::kBehind, ReaderFault::kStalled, ReaderFault::kDoorFull};

// The name in metrics: "behind", "stalled", "door_full".
inline const char* NameOf(ReaderFault fault) {
  switch (fault) {
    case ReaderFault::kBehind:
      return "behind";
    case ReaderFault::kStalled:
      return "stalled";
    case ReaderFault::kDoorFull:
      return "door_full";
  }
  return "";
}

// A message that gRPC has and that the client has not taken completely.
struct WriteUnderWay {
  size_t bytes = 0;  // In memory: as a message, and encoded.
  TimePoint started;
};

// The output of a call that is in memory.
struct HeldOutput {
  size_t waiting = 0;  // Bytes that are in no message yet.
  size_t kept = 0;     // Bytes kept for the complete message.
  std::optional<WriteUnderWay> write = {};

  size_t undelivered() const { return waiting + (write ? write->bytes : 0); }
  size_t total() const { return undelivered() + kept; }
};

// A call as OpenCalls sees it. Thread-safe.
class WatchedCall {
 public:
  virtual ~WatchedCall() = default;

  virtual HeldOutput held() const = 0;

  // Ends the call with RESOURCE_EXHAUSTED, even in the middle of a message, and
  // frees what it holds. Later calls, and those after its end, do nothing.
  virtual void EndForReader(ReaderFault fault) = 0;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_WATCHED_CALL_H_
