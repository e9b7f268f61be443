// Which worker a request should go to.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_ROUTER_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_ROUTER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace bole {

// A worker that takes requests, and what one request would find there.
struct RouteOption {
  bool has_room = false;  // A slot, and pages for the prefill.
  // Until a plan can be sent; 0: now. Infinite if the round on its way is later
  // than expected: nobody should wait for it.
  double seconds_until_free = 0;
  double round_seconds = 0;    // Of a round; 0: none was seen yet.
  double token_seconds = 0;    // More for each token of prefill.
  int max_prefill_tokens = 1;  // In a round.
  int64_t prefill_ahead = 0;   // Tokens of others, to be run before.
  int64_t prefill_tokens = 0;  // Tokens that this request needs.
  int64_t cached_tokens = 0;   // How many of these the worker has.
  size_t num_running = 0;      // Requests that are there.
};

// The time until the request's first token there, as far as it can be known.
double ExpectedWait(const RouteOption& option);

// The option with room where the least wait is expected, those that are not
// free with an allowance for others; of equal ones that with the fewest
// requests, then the first. None if none has room.
std::optional<size_t> Route(std::span<const RouteOption> options);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_ROUTER_H_
