#include "worker_service/eval/bench_prefill.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/status_macros.h"
#include "worker_service/engine/engine.h"
#include "worker_service/eval/generator.h"
#include "worker_service/model/device_arrays.h"

namespace bole {
namespace {

// The plans that prefill the prompt, one for each chunk.
std::vector<StepPlan> PlansOf(const LoadedModel& model, const Engine& engine,
                              int tokens, int chunk) {
  SequencePlan sequence{.max_new_tokens = 1};
  sequence.prompt_length = tokens;
  sequence.sampling.temperature = 0;
  for (int i = 0; i < engine.limits().num_pages; ++i) {
    sequence.pages.emplace_back(i);
  }
  const auto token_at = [&](int position) {
    const int64_t id = int64_t{7919} * position + 1;
    return static_cast<int32_t>(id % model.num_valid_tokens());
  };
  std::vector<StepPlan> plans;
  for (int begin = 0; begin < tokens; begin += chunk) {
    const int end = std::min(tokens, begin + chunk);
    PrefillPlan prefill{.sequence = sequence};
    prefill.sequence.committed = begin;
    for (int i = begin; i < end; ++i) prefill.tokens.push_back(token_at(i));
    if (end < tokens) prefill.next_token = token_at(end);
    plans.push_back({});
    plans.back().prefills.push_back(prefill);
  }
  return plans;
}

// The mean seconds that the operators which `queue` queues take, over as many
// replays as run in about 50 ms, after a few that are not counted.
absl::StatusOr<double> SecondsOf(Device& device,
                                 const std::function<absl::Status()>& queue) {
  constexpr double kTimedSeconds = 0.05;
  const std::unique_ptr<GraphSet> graphs = device.MakeGraphs(1);
  const auto run = [&](int times) -> absl::StatusOr<double> {
    BOLE_RETURN_IF_ERROR(device.SetMark(0));
    for (int i = 0; i < times; ++i) {
      BOLE_RETURN_IF_ERROR(graphs->Replay({}, queue));
    }
    BOLE_RETURN_IF_ERROR(device.SetMark(1));
    BOLE_RETURN_IF_ERROR(device.AwaitMark(1));
    BOLE_ASSIGN_OR_RETURN(const double seconds, device.SecondsBetween(0, 1));
    return seconds / times;
  };
  BOLE_RETURN_IF_ERROR(run(2).status());  // Chooses algorithms and captures.
  BOLE_ASSIGN_OR_RETURN(const double guess, run(2));
  const double times = kTimedSeconds / std::max(guess, 1e-6);
  return run(static_cast<int>(std::clamp(times, 3.0, 200.0)));
}

}  // namespace

absl::StatusOr<double> PrefillSeconds(const LoadedModel& model,
                                      Backend& backend, int tokens, int chunk) {
  using Clock = std::chrono::steady_clock;
  constexpr int kRuns = 4;
  EngineOptions options =
      EngineOptionsFor({.draft = std::nullopt, .max_nodes_per_tree = 1},
                       tokens + 1, model.num_valid_tokens());
  options.max_prefill_tokens = std::max(chunk, kPrefillGrid);
  BOLE_ASSIGN_OR_RETURN(
      const std::unique_ptr<Engine> engine,
      Engine::Create(model.config, *model.weights, backend, options));
  const std::vector<StepPlan> plans = PlansOf(model, *engine, tokens, chunk);
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    const Clock::time_point begin = Clock::now();
    for (const StepPlan& plan : plans) {
      BOLE_RETURN_IF_ERROR(engine->Step(plan).status());
    }
    const double seconds =
        std::chrono::duration<double>(Clock::now() - begin).count();
    if (run == 1 || (run > 1 && seconds < best)) best = seconds;
  }
  return best;
}

absl::StatusOr<double> MatrixRate(Backend& backend, int rows) {
  const MatrixGenerator generator{.pattern = MatrixPattern::kRandom,
                                  .rows = rows,
                                  .columns = rows,
                                  .seed = 2,
                                  .stream = 1,
                                  .num_blocks = 1,
                                  .blocks = {{rows, 1.0f, 0, 0}}};
  BOLE_ASSIGN_OR_RETURN(const WeightMatrix* const weight,
                        backend.GenerateMatrix(generator));
  DeviceArrays arrays(backend);
  std::vector<int32_t> tokens(rows);
  for (int i = 0; i < rows; ++i) tokens[i] = i;
  const RowCount count = {arrays.Copy(std::vector<int32_t>{rows}, "rows"),
                          rows};
  const int32_t* token = arrays.Copy(tokens, "tokens");
  const int64_t size = int64_t{rows} * rows;
  Activation* const x = arrays.Activations(size, "operand");
  Activation* const out = arrays.Activations(size, "product");
  BOLE_RETURN_IF_ERROR(arrays.status());
  BOLE_RETURN_IF_ERROR(backend.Embed(
      {.rows = count, .token = token, .table = weight, .out = x}));
  BOLE_ASSIGN_OR_RETURN(const double seconds, SecondsOf(backend, [&] {
                          return backend.MatMul({.rows = count,
                                                 .x = x,
                                                 .weight = weight,
                                                 .out = out,
                                                 .out_float = nullptr,
                                                 .accumulate = false});
                        }));
  return static_cast<double>(size) * rows / seconds;
}

}  // namespace bole
