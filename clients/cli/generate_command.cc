// bole generate: one answer.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "clients/cli/answer.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/failure.h"
#include "clients/cli/output.h"
#include "clients/cli/prompt.h"
#include "clients/cli/sampling_flags.h"
#include "clients/cli/target_flags.h"
#include "common/command_line.h"

namespace bole {
namespace {

struct Flags {
  ConnectionFlags connection;
  SamplingFlags sampling;
  TargetFlags targets;
  std::optional<std::string> prompt;
  std::optional<std::string> system;
  std::optional<int> n;
  bool raw = false;
  bool echo = false;
  bool json_stream = false;
};

AnswerFormat FormatOf(const Flags& flags) {
  if (flags.json_stream) return AnswerFormat::kJsonStream;
  return flags.connection.json ? AnswerFormat::kJson : AnswerFormat::kText;
}

// Makes `prompt` a chat turn if the model has a chat template. Returns the exit
// code.
int SetInput(const Flags& flags, const std::string& prompt,
             Connection& connection, v1::GenerateRequest& request) {
  request.set_text(prompt);
  if (flags.raw) return kExitOk;
  v1::GetModelInfoResponse model;
  const int exit_code = CallServer(connection, &Client::GetModelInfo,
                                   v1::GetModelInfoRequest(), model);
  if (exit_code != kExitOk) return exit_code;
  if (model.has_chat_template()) {
    *request.mutable_chat() = NewChat(flags.system);
    AddMessage("user", prompt, *request.mutable_chat());
  } else if (flags.system) {
    return UsageError("--system: the model " + model.model() +
                      " has no chat template to put it in");
  }
  return kExitOk;
}

int Run(const Flags& flags, Interrupt& interrupt) {
  const AnswerFormat format = FormatOf(flags);
  if (flags.sampling.logprobs && format == AnswerFormat::kText) {
    return UsageError("--logprobs: they show with --json or --stream-json");
  }
  std::string prompt;
  int exit_code = ReadText("PROMPT", flags.prompt, prompt);
  if (exit_code != kExitOk) return exit_code;

  ConnectionFlags connection_flags = flags.connection;
  connection_flags.json = format != AnswerFormat::kText;
  Connection connection(connection_flags, interrupt);
  v1::GenerateRequest request;
  *request.mutable_sampling_params() = flags.sampling.ToProto();
  if (flags.n) request.set_n(static_cast<uint32_t>(*flags.n));
  if (flags.echo) request.set_echo(true);
  if (const auto targets = flags.targets.ToProto()) {
    *request.mutable_targets() = *targets;
  }
  exit_code = SetInput(flags, prompt, connection, request);
  if (exit_code != kExitOk) return exit_code;
  const Answer answer = PrintAnswer(connection, request, format);
  if (answer.exit_code == kExitOk && format == AnswerFormat::kText) {
    for (const auto& [number, choice] : answer.choices) {
      if (answer.choices.size() > 1) {
        std::fprintf(stderr, "\n--- choice %u", number);
      }
      std::fprintf(stderr, "\n%s", Summary(choice.complete).c_str());
    }
  }
  return answer.exit_code;
}

}  // namespace

Command AddGenerateCommand(CommandLine& app, Interrupt& interrupt) {
  auto flags = std::make_shared<Flags>();
  CommandLine& command = app.AddCommand(
      "generate", "Answer one prompt, printing the text as it comes.");
  command.Add("PROMPT", flags->prompt,
              "text to answer; \"-\", or none in a pipe: all of stdin");
  const Flag raw = command.AddSwitch(
      "--raw", flags->raw,
      "continue the prompt as it is, even if the model has a chat template");
  command.Add("--system", flags->system, "text of a system turn before")
      .Excludes(raw);
  command.Add("--n", flags->n, "texts to draw, one after the other on stdout");
  command.AddSwitch("--echo", flags->echo, "print the prompt, too");
  flags->sampling.AddTo(command);
  flags->targets.AddTo(command);
  flags->connection.AddTo(command);
  command.AddSwitch("--stream-json", flags->json_stream,
                    "print each response of the server as JSON, one a line");
  return [flags, &interrupt] { return Run(*flags, interrupt); };
}

}  // namespace bole
