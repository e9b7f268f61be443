// Bytes that decode to a result are that result: encoded and decoded again it
// is the same, and its proposals are trees.

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/proposal_tree.h"
#include "common/step.h"
#include "proto/step_codec.h"
#include "proto/worker.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bole::worker::v1::StepResult message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  const absl::StatusOr<bole::StepResult> result = bole::DecodeResult(message);
  if (!result.ok()) return 0;
  for (const bole::SequenceResult& sequence : result->sequences) {
    if (!sequence.proposal) continue;
    BOLE_CHECK(bole::Validate(*sequence.proposal).ok());
  }

  bole::worker::v1::StepResult encoded;
  bole::EncodeResult(*result, encoded);
  // Compared as messages: a log-probability may be NaN, which equals nothing.
  bole::worker::v1::StepResult again;
  bole::EncodeResult(*bole::DecodeResult(encoded), again);
  BOLE_CHECK(encoded.SerializeAsString() == again.SerializeAsString());
  return 0;
}
