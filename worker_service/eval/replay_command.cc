#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/command_line.h"
#include "common/status_macros.h"
#include "worker_service/engine/engine.h"
#include "worker_service/engine/engine_flags.h"
#include "worker_service/engine/engine_sizes.h"
#include "worker_service/eval/commands.h"
#include "worker_service/eval/flags.h"
#include "worker_service/eval/replay.h"
#include "worker_service/loop/recorder.h"

namespace bole {
namespace {

struct Flags {
  ModelFlags model;
  EngineOptions engine = DefaultEngineOptions();
  std::string steps;
  float tolerance = 0;
};

absl::Status Run(const Flags& flags) {
  BOLE_ASSIGN_OR_RETURN(const std::vector<RecordedStep> steps,
                        ReadRecording(flags.steps));
  BOLE_ASSIGN_OR_RETURN(const RunningModel running, Load(flags.model));
  const LoadedModel& model = running.model;
  BOLE_ASSIGN_OR_RETURN(const PlannedEngine planned,
                        FitToDevice(flags.engine, model, *running.backend,
                                    kDefaultMemoryFraction));
  BOLE_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                        Engine::Create(model.config, *model.weights,
                                       *running.backend, planned.options));
  BOLE_ASSIGN_OR_RETURN(const ReplayReport report,
                        Replay(*engine, steps, flags.tolerance));
  std::printf("%zu of %zu steps equal\n", report.equal, steps.size());
  if (report.has_incomplete) {
    std::printf("step %zu, whose results were not recorded, ran to its end\n",
                steps.size() - 1);
  }
  if (!report.first_different) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("step ", *report.first_different,
                   " is the first that differs: ", report.first_difference));
}

}  // namespace

Command AddReplayCommand(CommandLine& app) {
  auto flags = std::make_shared<Flags>();
  CommandLine& command = app.AddCommand(
      "replay",
      "Run what bole-worker --record wrote, with the same sizes, and compare.");
  flags->model.AddTo(command);
  command.Add("--steps", flags->steps, "recording of a worker")
      .Required()
      .ExistingFile();
  command
      .Add("--tolerance", flags->tolerance,
           "difference of log probabilities that counts as equal; 0 is right "
           "on the machine of the recording")
      .Range(0.0, 1.0);
  AddEngineFlags(command, flags->engine);
  return [flags] { return Run(*flags); };
}

}  // namespace bole
