#include "scheduler_service/worker_description_codec.h"

#include "absl/strings/str_cat.h"
#include "common/sampling_params.h"
#include "common/status_macros.h"
#include "proto/step_codec.h"
#include "scheduler_service/field_error.h"

namespace bole {

absl::StatusOr<WorkerDescription> DecodeDescription(
    const worker::v1::DescribeResponse& message) {
  constexpr size_t kMaxOwnStopTokens = kMaxPlanStopTokens - kMaxStopTokens;
  WorkerDescription worker;
  worker.model = message.model();
  worker.device = message.device();
  worker.version = message.version();
  worker.has_drafter = message.has_drafter();
  worker.temperature = message.defaults().temperature();
  worker.top_k = message.defaults().top_k();
  worker.top_p = message.defaults().top_p();
  BOLE_ASSIGN_OR_RETURN(worker.limits, DecodeLimits(message.limits()));
  BOLE_RETURN_IF_ERROR(CheckAtMost("the number of eos_token_ids",
                                   message.eos_token_ids_size(),
                                   kMaxOwnStopTokens));
  for (const int32_t token : message.eos_token_ids()) {
    if (token < 0 || token >= worker.limits.vocabulary) {
      return BadField("eos_token_ids", token,
                      absl::StrCat("[0, ", worker.limits.vocabulary, ")"));
    }
  }
  worker.stop_tokens.assign(message.eos_token_ids().begin(),
                            message.eos_token_ids().end());
  SamplingParams defaults;
  defaults.temperature = worker.temperature;
  defaults.top_k = worker.top_k;
  defaults.top_p = worker.top_p;
  const absl::Status valid = Validate(defaults, worker.limits.vocabulary);
  if (!valid.ok()) return InField("defaults", valid);
  return worker;
}

}  // namespace bole
