#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "common/command_line.h"
#include "common/status_macros.h"
#include "kernels/communicator.h"
#include "nlohmann/json.hpp"
#include "worker_service/eval/commands.h"
#include "worker_service/eval/every_rank.h"
#include "worker_service/eval/flags.h"
#include "worker_service/eval/json_file.h"

namespace bole {
namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  ModelFlags model;
  GenerateFlags generate;
  std::string prompts;
  std::string out;
  bool logprobs = false;
};

// Shows the number of tokens so far, a few times a second, if on a terminal.
class Progress {
 public:
  void Add() {
    ++tokens_;
    const Clock::time_point now = Clock::now();
    if (!is_terminal_ || now < next_) return;
    next_ = now + std::chrono::milliseconds(200);
    std::fprintf(stderr, "\r%d tokens", tokens_);
  }
  ~Progress() {
    if (is_terminal_) std::fprintf(stderr, "\r\033[K");
  }

 private:
  const bool is_terminal_ = isatty(STDERR_FILENO) != 0;
  int tokens_ = 0;
  Clock::time_point next_ = Clock::now();
};

// The input of a run and its results.
struct Run {
  const std::vector<std::string>& prompts;
  const std::vector<GenerateRequest>& requests;
  const std::vector<GenerateResult>& results;
  const Tokenizer* tokenizer;
  double seconds;
};

nlohmann::ordered_json ToJson(const std::string& prompt,
                              const GenerateRequest& request,
                              const GenerateResult& result,
                              const Tokenizer& tokenizer, bool logprobs) {
  std::vector<int32_t> ids;
  std::vector<float> values;
  std::vector<int> accepted;
  for (const AcceptedRound& round : result.uncut) {
    accepted.push_back(round.tokens);
  }
  for (const EmittedToken& token : result.output) {
    ids.push_back(token.token);
    values.push_back(token.logprob);
  }
  nlohmann::ordered_json json = {{"prompt", prompt},
                                 {"prompt_ids", request.prompt},
                                 {"output_ids", ids},
                                 {"text", tokenizer.Decode(ids)},
                                 {"rounds", result.rounds},
                                 {"accepted_drafts", result.accepted_drafts},
                                 {"tokens_of_uncut_rounds", accepted}};
  if (logprobs) json["logprobs"] = values;
  return json;
}

// Writes the results and prints their summary.
absl::Status Report(const Flags& flags, const Run& run) {
  nlohmann::ordered_json out = {{"results", nlohmann::ordered_json::array()}};
  size_t tokens = 0;
  int rounds = 0;
  int accepted = 0;
  for (size_t i = 0; i < run.results.size(); ++i) {
    const GenerateResult& result = run.results[i];
    out["results"].push_back(ToJson(run.prompts[i], run.requests[i], result,
                                    *run.tokenizer, flags.logprobs));
    tokens += result.output.size();
    rounds += result.rounds;
    accepted += result.accepted_drafts;
  }
  const double mean_accepted =
      rounds == 0 ? 1.0 : 1.0 + static_cast<double>(accepted) / rounds;
  const double speed =
      run.seconds > 0 ? static_cast<double>(tokens) / run.seconds : 0;
  out["total"] = {{"rounds", rounds},
                  {"accepted_drafts", accepted},
                  {"mean_accepted_tokens", mean_accepted},
                  {"tokens_per_second", speed}};
  const AcceptanceProfile profile = ProfileOf(UncutRounds(run.results));
  out["acceptance"] = ToJson(profile);
  BOLE_RETURN_IF_ERROR(WriteJson(flags.out, out));
  std::printf(
      "%zu prompts, %zu tokens, %.1f tokens/s, %d rounds, %.3f mean accepted "
      "tokens; results in %s\n",
      run.prompts.size(), tokens, speed, rounds, mean_accepted,
      flags.out.c_str());
  std::printf("%s\n", Summary(profile).c_str());
  return absl::OkStatus();
}

absl::Status RunOnRank(const Flags& flags,
                       const std::shared_ptr<Communicator>& ranks) {
  BOLE_ASSIGN_OR_RETURN(const std::vector<std::string> prompts,
                        ReadPrompts(flags.prompts));
  BOLE_ASSIGN_OR_RETURN(const RunningModel running,
                        LoadWithTokenizer(flags.model, ranks));
  const LoadedModel& model = running.model;
  BOLE_RETURN_IF_ERROR(
      Validate(flags.generate.sampling, model.config.vocab_size));
  BOLE_ASSIGN_OR_RETURN(const GenerateOptions options,
                        flags.generate.Options(model));
  std::vector<GenerateRequest> requests;
  size_t longest = 0;
  for (const std::string& prompt : prompts) {
    BOLE_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                          model.tokenizer->Encode(prompt));
    longest = std::max(longest, ids.size());
    requests.push_back(flags.generate.Request(std::move(ids), model));
  }
  const int context = static_cast<int>(longest) + flags.generate.max_tokens;
  BOLE_ASSIGN_OR_RETURN(
      const std::unique_ptr<Engine> engine,
      Engine::Create(
          model.config, *model.weights, *running.backend,
          EngineOptionsFor(options, context, model.num_valid_tokens())));

  const Clock::time_point start = Clock::now();
  std::vector<GenerateResult> results;
  {
    Progress progress;
    BOLE_ASSIGN_OR_RETURN(results, Generate(*engine, options, requests,
                                            [&](size_t, const EmittedToken&) {
                                              progress.Add();
                                            }));
  }
  const double seconds =
      std::chrono::duration<double>(Clock::now() - start).count();

  if (!IsFirst(ranks.get())) return absl::OkStatus();
  return Report(flags, {.prompts = prompts,
                        .requests = requests,
                        .results = results,
                        .tokenizer = model.tokenizer.get(),
                        .seconds = seconds});
}

}  // namespace

Command AddGenerateCommand(CommandLine& app) {
  auto flags = std::make_shared<Flags>();
  CommandLine& command = app.AddCommand(
      "generate", "Continue prompts and write texts and acceptance.");
  flags->model.AddTo(command);
  flags->model.AddRanksTo(command);
  command.Add("--prompts", flags->prompts, "JSON array of strings")
      .Required()
      .ExistingFile();
  flags->generate.AddTo(command);
  command.AddSwitch("--logprobs", flags->logprobs,
                    "also write the tokens' log probabilities");
  command.Add("--out", flags->out, "JSON file to write").Required();
  return [flags] {
    return OnEveryRank(flags->model.num_ranks,
                       [&](const std::shared_ptr<Communicator>& ranks) {
                         return RunOnRank(*flags, ranks);
                       });
  };
}

}  // namespace bole
