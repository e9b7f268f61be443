// The record of a round in a worker's flight recorder.
#ifndef BOLE_WORKER_SERVICE_LOOP_STEP_RECORD_H_
#define BOLE_WORKER_SERVICE_LOOP_STEP_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/flight/flight_recorder.h"
#include "common/step.h"

namespace bole {

// The number of rounds that are kept.
inline constexpr size_t kStepRecords = 2048;

enum class StepOutcome {
  kRunning,  // In the file of a worker that hangs, this one hangs.
  kDone,
  kRefused,  // The plan could not be run, and nothing was touched.
  kFailed,   // The engine failed.
};

// A plan, or a further round of a lease. Names and units are those of
// StepFields().
struct StepRecord {
  int64_t at_us = 0;        // When it began, since 1970.
  int64_t stream = 0;       // The scheduler's stream, numbered as it came.
  int64_t plan = 0;         // Its number on the stream.
  int64_t round = 0;        // Within a lease, from 0 on.
  int64_t outcome = 0;      // A StepOutcome.
  int64_t queue_ns = 0;     // Waiting for the plans before it.
  int64_t validate_ns = 0;  // Then, until it was found valid.
  int64_t engine_ns = 0;    // Then, until its result; in a lease, from the
                            // previous result on.
  int64_t waiting = 0;      // Plans still in the queue when it began.
  int64_t prefills = 0;     // Prefill chunks.
  int64_t prefill_tokens = 0;
  int64_t sequences = 0;
  int64_t nodes = 0;        // Nodes in the round's forest.
  int64_t kv_tokens = 0;    // Committed tokens of all sequences of the plan.
  int64_t draft_top_k = 0;  // The next round's draft; 0: none.
  int64_t draft_depth = 0;
  int64_t defers_draft = 0;
  int64_t lease_rounds = 0;
  int64_t lease_budget = 0;
  int64_t slot_copies = 0;  // Within the device, before the round.
  int64_t page_copies = 0;
  int64_t host_copies = 0;  // To the host's memory and back.
  int64_t emitted = 0;
  int64_t accepted = 0;    // How many of them were drafts.
  int64_t bad_logits = 0;  // Sequences that failed because of their logits.
};

// One for each number of a StepRecord.
std::span<const FlightField> StepFields();

// The record of a plan, as far as it is known before the plan runs.
StepRecord RecordOf(const StepPlan& plan);
// Adds the numbers of a result.
void AddResult(const StepResult& result, StepRecord& record);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_LOOP_STEP_RECORD_H_
