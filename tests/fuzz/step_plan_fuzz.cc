// Bytes that decode to a plan which a worker accepts are that plan: encoded and
// decoded again it is the same. What is not accepted is an error, and nothing
// worse.

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/step.h"
#include "proto/step_codec.h"
#include "proto/worker.pb.h"
#include "tests/testing/random_step.h"
#include "tests/testing/same_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bole::worker::v1::StepPlan message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  const absl::StatusOr<bole::StepPlan> plan = bole::DecodePlan(message);
  if (!plan.ok()) return 0;
  if (!bole::Validate(*plan, bole::testing::RandomPlanLimits()).ok()) return 0;

  bole::worker::v1::StepPlan encoded;
  bole::EncodePlan(*plan, encoded);
  const absl::StatusOr<bole::StepPlan> again = bole::DecodePlan(encoded);
  BOLE_CHECK(again.ok());
  BOLE_CHECK(bole::testing::Same(*again, *plan));
  return 0;
}
