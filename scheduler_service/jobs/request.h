// A client's request, checked and tokenized.
#ifndef BOLE_SCHEDULER_SERVICE_JOBS_REQUEST_H_
#define BOLE_SCHEDULER_SERVICE_JOBS_REQUEST_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/sampling_params.h"
#include "scheduler_service/jobs/token_stream.h"
#include "scheduler_service/policy/speculation.h"

namespace bole {

class RequestWatch;

using TimePoint = std::chrono::steady_clock::time_point;

// How output becomes text, and which text ends it.
struct TextParams {
  std::vector<std::string> stop;  // None is empty.
  bool include_stop_in_output = false;
  bool skip_special_tokens = true;
};

// How fast the output should arrive, for policies that consider it.
struct LatencyTargets {
  std::optional<std::chrono::milliseconds> time_to_first_token = {};
  std::optional<std::chrono::milliseconds> time_per_output_token = {};
};

// One text to be generated. Immutable once submitted. The stream is shared by
// the RPC, which reads it, and the loop, which writes it; either may be the
// last to release it.
struct Request {
  std::string id;
  uint32_t choice = 0;       // Its number among the requested choices.
  std::optional<JobId> job;  // Given by the mailbox that accepts it.
  ModelId model{0};
  // The tenant, for a fair share of the queue; requests without one form one
  // tenant. Among a tenant's requests those of a higher priority go first.
  std::string tenant;
  int priority = 0;
  std::vector<int32_t> prompt;  // At least one token.
  // Output that the client has already. Fewer than max_tokens, and none that
  // ends the text.
  std::vector<int32_t> resumed = {};
  SamplingParams sampling;           // max_tokens is set, and fits the context.
  std::vector<int32_t> stop_tokens;  // Set by the request and the model.
  TextParams text;
  std::optional<SpeculationOverride> speculation;  // Bounds something.
  LatencyTargets targets = {};
  // Requests of a tenant with equal salts may share a cached prefix.
  std::string cache_salt;
  TimePoint arrival;
  TimePoint deadline = TimePoint::max();
  std::shared_ptr<TokenStream> stream;
  // The size of the message that the request came in. The admission bounds
  // count it once for each choice of the message.
  size_t bytes = 0;
  // The place among its tenant's requests, which is freed when the last holder
  // releases it. May be null.
  std::shared_ptr<const void> seat = nullptr;
  // Is told what happens to the request, for its trace and the log. May be
  // null.
  std::shared_ptr<RequestWatch> watch = nullptr;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_JOBS_REQUEST_H_
