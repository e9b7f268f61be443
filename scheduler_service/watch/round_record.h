// The record of a round in the scheduler's flight recorder.
#ifndef BOLE_SCHEDULER_SERVICE_WATCH_ROUND_RECORD_H_
#define BOLE_SCHEDULER_SERVICE_WATCH_ROUND_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/flight/flight_recorder.h"

namespace bole {

// The number of rounds that are kept.
inline constexpr size_t kRoundRecords = 2048;

// The outcome of a round.
enum class RoundOutcome {
  kOnItsWay,
  kDone,
  kRefused,  // The worker refused the plan.
  kLost,     // The worker was lost, answered wrongly, or not in time.
};

// A plan, or a further round of a lease. Names and units are those of
// RoundFields(); counts that only the worker knows are 0 until it answers.
struct RoundRecord {
  int64_t at_us = 0;    // When it began, since 1970.
  int64_t worker = 0;   // Its number; Admin.ListWorkers has them in order.
  int64_t epoch = 0;    // The worker connection's epoch.
  int64_t plan = 0;     // Its number in the epoch.
  int64_t round = 0;    // Number within its lease, from 0 on.
  int64_t outcome = 0;  // A RoundOutcome.
  // The time from the previous result until this plan was sent, in nanoseconds,
  // and the part of it that planning took.
  int64_t host_ns = 0;
  int64_t plan_ns = 0;
  // The time from the plan, or from the previous round, to the result; the time
  // in the worker's engine; its prediction, or 0; and the time to process the
  // result.
  int64_t round_ns = 0;
  int64_t engine_ns = 0;
  int64_t predicted_ns = 0;
  int64_t apply_ns = 0;
  int64_t running = 0;  // Requests that have places on the worker.
  int64_t others_wait = 0;
  int64_t free_slots = 0;
  int64_t free_pages = 0;
  int64_t prefills = 0;  // Chunks, and their tokens.
  int64_t prefill_tokens = 0;
  int64_t sequences = 0;    // Those that verified a tree.
  int64_t budget = 0;       // Nodes that could be verified.
  int64_t nodes = 0;        // Nodes that were verified.
  int64_t draft_top_k = 0;  // The next round's draft; 0: none.
  int64_t draft_depth = 0;
  int64_t off_reason = 0;  // An OffReason.
  int64_t lease_rounds = 0;
  int64_t lease_budget = 0;
  int64_t copies = 0;  // Slots and pages copied before the round.
  int64_t emitted = 0;
  int64_t accepted = 0;        // How many of them were drafts.
  int64_t promised_milli = 0;  // Expected accepted drafts.
};

// The descriptions of the numbers of a RoundRecord, in order.
std::span<const FlightField> RoundFields();

// Converts times for the fields above.
inline int64_t Nanoseconds(double seconds) {
  return static_cast<int64_t>(seconds * 1e9);
}

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WATCH_ROUND_RECORD_H_
