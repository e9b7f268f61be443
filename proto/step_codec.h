// Plans, results and limits on their way over the wire and into recordings.
#ifndef BOLE_PROTO_STEP_CODEC_H_
#define BOLE_PROTO_STEP_CODEC_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/step.h"
#include "proto/worker.pb.h"

namespace bole {

// Encode*() replaces what `message` holds; one that is used again keeps its
// memory. Of a plan's sampling parameters only those go over the wire that a
// step needs: max_tokens, stop_token_ids and ignore_eos are in max_new_tokens
// and stop_tokens.
//
// Decode*() returns INVALID_ARGUMENT, naming the field and its value, for a
// message that is no such value: a part is missing, arrays that belong together
// differ in length, a forest is none, or there is more of it than any worker
// takes. What an accepted message becomes needs memory in proportion to its
// bytes.
//
// All are O(size) and may be called by any thread.

// Sequences, and prefill chunks, of a plan or a result that is decoded.
inline constexpr int kMaxCodedSequences = 4096;
// Nodes of one tree of a forest that is decoded.
inline constexpr int kMaxCodedTreeNodes = 128;
// Slots and pages of limits that are decoded: who reads them keeps a list of
// each.
inline constexpr int kMaxCodedSlots = 1 << 20;
inline constexpr int kMaxCodedPages = 1 << 24;

void EncodePlan(const StepPlan& plan, worker::v1::StepPlan& message);

// Whether a worker can run the plan is for Validate(plan, limits).
absl::StatusOr<StepPlan> DecodePlan(const worker::v1::StepPlan& message);

// How the emitted tokens and the candidates of a result are written.
enum class ResultForm {
  kArrays,  // For recordings.
  kRaw,     // For schedulers, which read it faster.
};

void EncodeResult(const StepResult& result, worker::v1::StepResult& message,
                  ResultForm form = ResultForm::kArrays);

// Reads both forms. Checks as well that counts and tokens are not negative,
// that no more drafts were accepted than tokens emitted, and
// Validate(proposal). Whether the result answers a plan is for who sent that.
absl::StatusOr<StepResult> DecodeResult(const worker::v1::StepResult& message);

void EncodeLimits(const StepLimits& limits, worker::v1::StepLimits& message);

// Checks as well that every limit is at least 1, that sizes computed from them
// do not overflow, and that together they let every sequence of a full batch
// run: a root for each, a prefill that gets on, pages for the shortest text.
absl::StatusOr<StepLimits> DecodeLimits(const worker::v1::StepLimits& message);

}  // namespace bole

#endif  // BOLE_PROTO_STEP_CODEC_H_
