#include "worker_service/eval/bench_decode.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker_service/eval/generator.h"

namespace bole {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUpRounds = 4;
constexpr int kPrefillChunk = 2048;

EngineTimes Difference(const EngineTimes& end, const EngineTimes& begin) {
  return {.rounds = end.rounds - begin.rounds,
          .busy = end.busy - begin.busy,
          .idle = end.idle - begin.idle,
          .forward = end.forward - begin.forward,
          .accept = end.accept - begin.accept,
          .draft = end.draft - begin.draft};
}

// Counts rounds as they end.
class RoundCounter {
 public:
  RoundCounter(const DecodeCase& decode, const Engine& engine)
      : decode_(decode), engine_(engine) {}

  void OnStep(const StepPlan& plan, const StepResult& result) {
    const Clock::time_point now = Clock::now();
    const EngineTimes device = engine_.times();
    const bool is_full =
        plan.prefills.empty() && std::ssize(plan.sequences) == decode_.batch &&
        std::ranges::none_of(result.sequences, [](const SequenceResult& of) {
          return of.emitted.empty();
        });
    if (!is_full) return;
    if (++full_rounds_ <= kWarmUpRounds) {
      begin_ = now;
      device_begin_ = device;
      return;
    }
    ++times_.rounds;
    times_.seconds = std::chrono::duration<double>(now - begin_).count();
    times_.device = Difference(device, device_begin_);
    for (const SequenceResult& sequence : result.sequences) {
      times_.tokens += std::ssize(sequence.emitted);
    }
  }

  const DecodeTimes& times() const { return times_; }

 private:
  const DecodeCase& decode_;
  const Engine& engine_;
  DecodeTimes times_;
  int full_rounds_ = 0;
  Clock::time_point begin_;
  EngineTimes device_begin_;
};

std::vector<GenerateRequest> RequestsOf(const DecodeCase& decode,
                                        const LoadedModel& model) {
  std::vector<GenerateRequest> requests(decode.batch);
  for (int b = 0; b < decode.batch; ++b) {
    GenerateRequest& request = requests[b];
    for (int i = 0; i < decode.prompt_tokens; ++i) {
      const int64_t id = int64_t{7919} * i + int64_t{104729} * b + 1;
      request.prompt.push_back(
          static_cast<int32_t>(id % model.num_valid_tokens()));
    }
    request.sampling.temperature = decode.temperature;
    request.sampling.max_tokens = decode.output_tokens;
    request.sampling.seed = b;
  }
  return requests;
}

}  // namespace

absl::StatusOr<DecodeTimes> RunDecode(const LoadedModel& model,
                                      Backend& backend,
                                      const DecodeCase& decode) {
  GenerateOptions options{.draft = decode.draft,
                          .max_nodes_per_tree = decode.nodes,
                          .max_batch = decode.batch,
                          .lease_rounds = decode.lease_rounds};
  EngineOptions engine_options =
      EngineOptionsFor(options, decode.prompt_tokens + decode.output_tokens,
                       model.num_valid_tokens());
  engine_options.solver = decode.solver;
  engine_options.time_phases = decode.time_phases;
  engine_options.max_prefill_tokens =
      std::clamp(decode.batch * decode.prompt_tokens, kPrefillGrid,
                 std::max(kPrefillChunk, engine_options.max_nodes));
  BOLE_ASSIGN_OR_RETURN(
      const std::unique_ptr<Engine> engine,
      Engine::Create(model.config, *model.weights, backend, engine_options));
  RoundCounter counter(decode, *engine);
  options.on_step = [&](const StepPlan& plan, const StepResult& result) {
    counter.OnStep(plan, result);
  };
  BOLE_ASSIGN_OR_RETURN(
      const std::vector<GenerateResult> results,
      Generate(*engine, options, RequestsOf(decode, model), nullptr));
  DecodeTimes times = counter.times();
  times.acceptance = ProfileOf(UncutRounds(results));
  times.memory = engine->memory_use();
  if (times.rounds > 0) return times;
  return absl::InvalidArgumentError(
      absl::StrCat(decode.output_tokens, " output tokens are over in ",
                   kWarmUpRounds, " rounds, which are not timed"));
}

}  // namespace bole
