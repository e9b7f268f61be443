// Makes tests/golden/steps: short runs of the demo checkpoint, as a worker
// records them. Run it from the root of the tree with that folder as the only
// argument.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/step.h"
#include "tests/worker_service/eval/demo_model.h"
#include "worker_service/engine/engine_sizes.h"
#include "worker_service/eval/generator.h"
#include "worker_service/loop/recorder.h"

namespace bole::testing_support {
namespace {

void CheckOk(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

template <typename T>
T Value(absl::StatusOr<T> value) {
  CheckOk(value.status());
  return *std::move(value);
}

struct Run {
  std::string name;
  GenerateOptions options;
  int max_prefill_tokens;
  std::vector<GenerateRequest> requests;
};

// Engines of the default sizes, so that bole-eval replay needs no flags.
void Record(const Run& run, const std::string& folder) {
  DemoModel& demo = DemoModel::Get();
  EngineOptions sizes = FitToModel(DefaultEngineOptions(), demo.model());
  sizes.max_prefill_tokens = run.max_prefill_tokens;
  const std::unique_ptr<Engine> engine = Value(Engine::Create(
      demo.model().config, *demo.model().weights, demo.backend(), sizes));
  const std::string path = folder + "/" + run.name + ".binpb";
  Recorder recorder = Value(Recorder::Create(path));
  GenerateOptions options = run.options;
  options.on_step = [&](const StepPlan& plan, const StepResult& result) {
    CheckOk(recorder.WritePlan(plan));
    CheckOk(recorder.WriteResult(result));
  };
  CheckOk(Generate(*engine, options, run.requests, nullptr).status());
  std::printf("%s: %zu steps\n", path.c_str(),
              Value(ReadRecording(path)).size());
}

GenerateRequest Greedy(std::vector<int32_t> prompt, int max_tokens) {
  GenerateRequest request{
      .prompt = std::move(prompt), .sampling = {}, .stop_tokens = {}};
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  request.sampling.logprobs = true;
  return request;
}

GenerateRequest Seeded(std::vector<int32_t> prompt, uint64_t seed) {
  GenerateRequest request = Greedy(std::move(prompt), /*max_tokens=*/24);
  SamplingParams& sampling = request.sampling;
  sampling.seed = seed;
  sampling.temperature = 0.8f;
  sampling.top_k = 50;
  sampling.top_p = 0.95f;
  sampling.min_p = 0.01f;
  sampling.presence_penalty = 0.5f;
  sampling.frequency_penalty = 0.25f;
  sampling.repetition_penalty = 1.1f;
  sampling.logit_bias = {{request.prompt[0], -5.0f}, {100, 1.5f}};
  sampling.top_logprobs = 3;
  return request;
}

std::vector<Run> Runs() {
  const DemoModel& demo = DemoModel::Get();
  const std::vector<std::vector<int32_t>> prompts = demo.Prompts();
  std::vector<int32_t> long_prompt;
  for (int i = 0; i < 4; ++i) {
    long_prompt.insert(long_prompt.end(), prompts[i].begin(), prompts[i].end());
  }
  const GenerateOptions tree = {.draft = DraftShape{.top_k = 3, .depth = 4},
                                .max_nodes_per_tree = 12,
                                .max_batch = 3};
  // Four requests and three places: the last is prefilled beside trees.
  std::vector<GenerateRequest> mixed = {
      Greedy(prompts[4], 48), Seeded(prompts[5], 3), Greedy(prompts[7], 20),
      Greedy(prompts[10], 40)};
  mixed[0].stop_tokens = demo.model().stop_tokens;
  return {{.name = "greedy_chunked",
           .options = Off(1),
           .max_prefill_tokens = 64,
           .requests = {Greedy(long_prompt, 8)}},
          {.name = "seeded_penalties",
           .options = Off(2),
           .max_prefill_tokens = 512,
           .requests = {Seeded(prompts[8], 1), Seeded(prompts[9], 2)}},
          {.name = "trees",
           .options = tree,
           .max_prefill_tokens = 512,
           .requests = mixed}};
}

}  // namespace
}  // namespace bole::testing_support

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: record_golden_steps FOLDER\n");
    return 2;
  }
  for (const auto& run : bole::testing_support::Runs()) {
    bole::testing_support::Record(run, argv[1]);
  }
  return 0;
}
