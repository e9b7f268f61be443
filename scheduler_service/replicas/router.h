// Chooses the worker that a request should go to.
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
  // Time until a plan can be sent; 0: now. Infinite if the round on its way is
  // later than expected: no request should wait for it.
  double seconds_until_free = 0;
  double round_seconds = 0;    // A round's time; 0: not known yet.
  double token_seconds = 0;    // In addition, per prefill token.
  int max_prefill_tokens = 1;  // In a round.
  int64_t prefill_ahead = 0;   // Other requests' tokens that run before.
  int64_t prefill_tokens = 0;  // This request's tokens.
  int64_t cached_tokens = 0;   // Those that the worker has.
  size_t num_running = 0;      // Requests on the worker.
};

// The expected time until the request's first token on that worker.
double ExpectedWait(const RouteOption& option);

// The option with room where the expected wait is shortest; the wait for
// workers that are not free counts as longer, for the sake of other requests.
// Among equal ones, the option with the fewest requests, then the first. None
// if none has room.
std::optional<size_t> Route(std::span<const RouteOption> options);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_ROUTER_H_
