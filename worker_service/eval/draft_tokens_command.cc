#include <unistd.h>

#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/command_line.h"
#include "common/status_macros.h"
#include "common/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"
#include "worker_service/eval/commands.h"
#include "worker_service/eval/count_text.h"
#include "worker_service/eval/json_file.h"
#include "worker_service/loading/draft_tokens.h"
#include "worker_service/model/generation_config.h"
#include "worker_service/model/mapped_file.h"
#include "worker_service/model/model_config.h"

namespace bole {
namespace {

struct Flags {
  std::string model;
  std::vector<std::string> text;
  std::vector<std::string> check;
  int count = 32768;
  std::string out;  // Empty: in the checkpoint's folder.
};

// Shows the bytes that have been counted so far, if on a terminal.
class Progress {
 public:
  void Add(size_t bytes) {
    bytes_ += bytes;
    if (!is_terminal_) return;
    std::fprintf(stderr, "\r%.1f MB of text",
                 static_cast<double>(bytes_) / 1e6);
  }
  ~Progress() {
    if (is_terminal_) std::fprintf(stderr, "\r\033[K");
  }

 private:
  const bool is_terminal_ = isatty(STDERR_FILENO) != 0;
  size_t bytes_ = 0;
};

// The tokens that do not occur in plain text but that the model may emit.
absl::StatusOr<std::vector<int32_t>> SpecialTokens(const std::string& model,
                                                   const Tokenizer& tokenizer,
                                                   int num_ids) {
  BOLE_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(model));
  BOLE_ASSIGN_OR_RETURN(const std::optional<GenerationConfig> generation,
                        LoadGenerationConfig(model));
  BOLE_ASSIGN_OR_RETURN(
      const std::vector<int> stops,
      StopIds(config, generation.value_or(GenerationConfig{})));
  std::vector<int32_t> ids;
  for (const int id : stops) {
    if (id < num_ids) ids.push_back(id);
  }
  for (int32_t id = 0; id < num_ids; ++id) {
    if (tokenizer.IsSpecial(id)) ids.push_back(id);
  }
  return ids;
}

absl::StatusOr<std::vector<int64_t>> CountFiles(
    const std::vector<std::string>& paths, const Tokenizer& tokenizer) {
  std::vector<int64_t> count(tokenizer.num_ids());
  Progress progress;
  for (const std::string& path : paths) {
    BOLE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    const absl::Status counted =
        CountText(tokenizer, file.text(), count,
                  [&](size_t bytes) { progress.Add(bytes); });
    if (!counted.ok()) return Annotate(counted, path);
  }
  return count;
}

// Prints how well the list covers text that it was not made from.
absl::Status Check(const Flags& flags, const std::vector<int32_t>& listed,
                   const Tokenizer& tokenizer) {
  if (flags.check.empty()) return absl::OkStatus();
  BOLE_ASSIGN_OR_RETURN(const std::vector<int64_t> count,
                        CountFiles(flags.check, tokenizer));
  int64_t covered = 0;
  for (const int32_t token : listed) covered += count[token];
  const int64_t all = std::accumulate(count.begin(), count.end(), int64_t{0});
  std::printf("%s: %.3f %% of %lld tokens are not in the list\n",
              absl::StrJoin(flags.check, ", ").c_str(),
              all == 0 ? 0.0
                       : 100 * static_cast<double>(all - covered) /
                             static_cast<double>(all),
              static_cast<long long>(all));
  return absl::OkStatus();
}

absl::Status RunCommand(const Flags& flags) {
  BOLE_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                        Tokenizer::Load(flags.model + "/tokenizer.json"));
  BOLE_ASSIGN_OR_RETURN(std::vector<int64_t> count,
                        CountFiles(flags.text, *tokenizer));
  BOLE_ASSIGN_OR_RETURN(
      const std::vector<int32_t> special,
      SpecialTokens(flags.model, *tokenizer, tokenizer->num_ids()));
  const ChosenTokens chosen = ChooseTokens(count, special, flags.count);
  const std::string beside = flags.model + "/" + kDraftTokensFile;
  const std::string out = flags.out.empty() ? beside : flags.out;
  BOLE_RETURN_IF_ERROR(
      WriteJson(out, {{"tokens", chosen.tokens},
                      {"source", absl::StrJoin(flags.text, ", ")}}));
  const int64_t all = std::accumulate(count.begin(), count.end(), int64_t{0});
  std::printf(
      "%s: %zu of %d tokens, which are %.2f %% of the %lld in the text\n",
      out.c_str(), chosen.tokens.size(), tokenizer->num_ids(),
      100 * chosen.coverage, static_cast<long long>(all));
  BOLE_RETURN_IF_ERROR(Check(flags, chosen.tokens, *tokenizer));
  if (out == beside) {
    std::printf(
        "The drafter uses them from now on; --draft-head full does without.\n");
  } else {
    std::printf("To use them: cp %s %s\n", out.c_str(), beside.c_str());
  }
  return absl::OkStatus();
}

}  // namespace

Command AddDraftTokensCommand(CommandLine& app) {
  CommandLine& command = app.AddCommand(
      "draft-tokens",
      "Lists the tokens that a text has most often, for the drafter to choose "
      "among: drafting gets cheaper, and what is written stays the same. Use "
      "text like what the model will write.");
  auto flags = std::make_shared<Flags>();
  command.Add("--model", flags->model, "folder of the checkpoint")
      .Required()
      .ExistingDirectory();
  command.Add("--text", flags->text, "files of text").Required().ExistingFile();
  command
      .Add("--check", flags->check,
           "files of other text, of which to say what share of the tokens is "
           "not in the list")
      .ExistingFile();
  command
      .Add("--count", flags->count,
           "tokens to list; special ones, such as those that end a text, are "
           "always among them")
      .Range(kMinDraftTokens, 1 << 24);
  command.Add("--out", flags->out,
              absl::StrCat("file to write; left out: ", kDraftTokensFile,
                           " beside the checkpoint, where it is used"));
  return [flags] { return RunCommand(*flags); };
}

}  // namespace bole
