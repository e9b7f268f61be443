// Offline decoding at a fixed batch, timed.
#ifndef BOLE_WORKER_SERVICE_EVAL_BENCH_DECODE_H_
#define BOLE_WORKER_SERVICE_EVAL_BENCH_DECODE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/draft_shape.h"
#include "kernels/backend.h"
#include "worker_service/engine/engine.h"
#include "worker_service/eval/acceptance_profile.h"
#include "worker_service/loading/loaded_model.h"

namespace bole {

struct DecodeCase {
  std::optional<DraftShape> draft;  // Nothing: plain decoding.
  TreeSolver solver = TreeSolver::kBlocks;
  int nodes = 1;  // Verified per request and round, the root included.
  int batch = 1;
  int prompt_tokens = 1;
  int output_tokens = 1;
  float temperature = 0;
  bool time_phases = false;
  int lease_rounds = 1;  // Rounds of a lease; 1: no leases.
};

// Times of the rounds in which every request of the batch ran, without the
// first ones, which capture graphs and choose algorithms.
struct DecodeTimes {
  int rounds = 0;
  double seconds = 0;  // Planning on the host included.
  // Output tokens of all requests.
  int64_t tokens = 0;
  // Acceptance over all rounds of all requests.
  AcceptanceProfile acceptance;
  EngineTimes device;
  EngineMemory memory;
};

// Runs the case on an engine of its own. Prompts are arbitrary tokens, the same
// in every run of a case.
// INVALID_ARGUMENT: too few output tokens for a timed round. Errors of
// Engine::Create().
absl::StatusOr<DecodeTimes> RunDecode(const LoadedModel& model,
                                      Backend& backend,
                                      const DecodeCase& decode);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_EVAL_BENCH_DECODE_H_
