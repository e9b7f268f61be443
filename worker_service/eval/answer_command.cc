#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "common/chat/chat_template.h"
#include "common/command_line.h"
#include "common/status_macros.h"
#include "common/tokenizer/streaming_decoder.h"
#include "worker_service/eval/commands.h"
#include "worker_service/eval/flags.h"

namespace bole {
namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  ModelFlags model;
  GenerateFlags generate;
  std::string prompt;
  bool raw = false;
};

// The prompt as the model sees it: rendered as a chat turn if the checkpoint
// has a chat template, otherwise unchanged.
absl::StatusOr<std::string> Render(const Flags& flags) {
  if (flags.raw) return flags.prompt;
  absl::StatusOr<ChatTemplate> chat =
      ChatTemplate::LoadFromCheckpoint(flags.model.name);
  if (absl::IsNotFound(chat.status())) return flags.prompt;
  if (!chat.ok()) return chat.status();
  return chat->Render(
      {{"messages", {{{"role", "user"}, {"content", flags.prompt}}}},
       {"add_generation_prompt", true}});
}

void PrintSummary(const GenerateRequest& request, const GenerateResult& result,
                  double seconds) {
  const size_t tokens = result.output.size();
  std::printf("\n\nprompt tokens         %zu\n", request.prompt.size());
  std::printf("output tokens         %zu\n", tokens);
  std::printf("tokens per second     %.1f\n",
              static_cast<double>(tokens) / seconds);
  std::printf("rounds                %d\n", result.rounds);
  std::printf(
      "mean accepted tokens  %.2f\n",
      result.rounds == 0
          ? 1.0
          : 1.0 + static_cast<double>(result.accepted_drafts) / result.rounds);
}

absl::Status Run(const Flags& flags) {
  BOLE_ASSIGN_OR_RETURN(const std::string prompt, Render(flags));
  BOLE_ASSIGN_OR_RETURN(const RunningModel running,
                        LoadWithTokenizer(flags.model));
  const LoadedModel& model = running.model;
  BOLE_RETURN_IF_ERROR(
      Validate(flags.generate.sampling, model.config.vocab_size));
  BOLE_ASSIGN_OR_RETURN(const GenerateOptions options,
                        flags.generate.Options(model));
  BOLE_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                        model.tokenizer->Encode(prompt));
  const int context = static_cast<int>(ids.size()) + flags.generate.max_tokens;
  const GenerateRequest request = flags.generate.Request(std::move(ids), model);
  BOLE_ASSIGN_OR_RETURN(
      const std::unique_ptr<Engine> engine,
      Engine::Create(
          model.config, *model.weights, *running.backend,
          EngineOptionsFor(options, context, model.num_valid_tokens())));

  StreamingDecoder decoder(*model.tokenizer, /*skip_special_tokens=*/true);
  const Clock::time_point start = Clock::now();
  BOLE_ASSIGN_OR_RETURN(const std::vector<GenerateResult> results,
                        Generate(*engine, options, {&request, 1},
                                 [&](size_t, const EmittedToken& token) {
                                   std::fputs(decoder.Push(token.token).c_str(),
                                              stdout);
                                   std::fflush(stdout);
                                 }));
  const double seconds =
      std::chrono::duration<double>(Clock::now() - start).count();
  std::fputs(decoder.Finish().c_str(), stdout);
  PrintSummary(request, results[0], seconds);
  return absl::OkStatus();
}

}  // namespace

Command AddAnswerCommand(CommandLine& app) {
  auto flags = std::make_shared<Flags>();
  CommandLine& command = app.AddCommand(
      "answer", "Answer one prompt, printing the text as it is produced.");
  flags->model.AddTo(command);
  flags->generate.AddTo(command);
  command.AddSwitch("--raw", flags->raw,
                    "continue the prompt as it is, even if the checkpoint has "
                    "a chat template");
  command.Add("prompt", flags->prompt, "text to answer").Required();
  return [flags] { return Run(*flags); };
}

}  // namespace bole
