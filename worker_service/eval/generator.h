// Offline generation: runs a whole batch of prompts through one engine.
#ifndef BOLE_WORKER_SERVICE_EVAL_GENERATOR_H_
#define BOLE_WORKER_SERVICE_EVAL_GENERATOR_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/draft_shape.h"
#include "common/sampling_params.h"
#include "common/step.h"
#include "worker_service/engine/engine.h"
#include "worker_service/eval/acceptance_profile.h"

namespace bole {

struct GenerateRequest {
  std::vector<int32_t> prompt;
  SamplingParams sampling;           // max_tokens must be set.
  std::vector<int32_t> stop_tokens;  // All of them.
};

struct GenerateResult {
  std::vector<EmittedToken> output;  // A stop token included.
  // The token drawn from the prompt's last position belongs to no round.
  int rounds = 0;
  int accepted_drafts = 0;
  // The rounds that the end of the output could not have cut short. Promised
  // tokens are known only for the first round of a lease.
  std::vector<AcceptedRound> uncut;
};

struct GenerateOptions {
  // The shape of the drafts; absent: plain decoding.
  std::optional<DraftShape> draft;
  int max_nodes_per_tree = 32;  // The root included.
  int max_batch = 1;            // Requests that run together.
  // If above 1, plans without prefill are leases of this many rounds: the
  // device chooses their forests by itself (Lease).
  int lease_rounds = 1;
  // If set, called with the result of every step, and with each result of a
  // lease.
  std::function<void(const StepPlan&, const StepResult&)> on_step = {};
};

// The accepted rounds of each request, for ProfileOf().
std::vector<std::vector<AcceptedRound>> UncutRounds(
    std::span<const GenerateResult> results);

// The options of an engine that is large enough for `options` and for requests
// of up to `max_context` tokens.
EngineOptions EngineOptionsFor(const GenerateOptions& options, int max_context,
                               int num_valid_tokens);

// Called for every token as it is emitted.
using TokenCallback =
    std::function<void(size_t request, const EmittedToken& token)>;

// Runs every request to its end; one that ends makes room for the next. Results
// are in the order of the requests, and the result of a request does not depend
// on the others.
//
// INVALID_ARGUMENT: an empty prompt, or a prompt and max_tokens that exceed the
// engine's context, naming the request; in that case nothing has run.
absl::StatusOr<std::vector<GenerateResult>> Generate(
    Engine& engine, const GenerateOptions& options,
    std::span<const GenerateRequest> requests, const TokenCallback& on_token);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_EVAL_GENERATOR_H_
