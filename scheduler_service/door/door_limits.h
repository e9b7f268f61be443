// The bounds on calls, named like the flags of bole-scheduler.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_DOOR_LIMITS_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_DOOR_LIMITS_H_

#include <chrono>
#include <cstddef>

namespace bole {

struct DoorLimits {
  // Open Generate calls, including those that are read slowly.
  size_t max_open_requests = 4096;
  // Messages above 16 KiB that wait to be read: this many of Generate, and as
  // many again of Tokenize and Detokenize together.
  size_t max_long_messages = 64;
  // Bytes of one call's output that its client has not taken. 16 MiB hold
  // 400,000 tokens, or 75,000 tokens with 20 log probabilities each.
  size_t max_undelivered_bytes = 16 << 20;
  // Bytes of output that all calls hold, including what is kept for complete
  // messages.
  size_t max_output_bytes = size_t{1} << 30;
  // A call ends if its client does not take a message within this time.
  std::chrono::milliseconds stalled_reader{60000};
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_DOOR_LIMITS_H_
