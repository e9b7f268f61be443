// bole tokenize, bole detokenize: texts and their tokens.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/failure.h"
#include "clients/cli/output.h"
#include "clients/cli/prompt.h"
#include "clients/cli/terminal.h"
#include "common/command_line.h"

namespace bole {
namespace {

struct TokenizeFlags {
  ConnectionFlags connection;
  std::optional<std::string> text;
  bool no_special = false;
};

// Prints the ids with the text of each. Half a character is U+FFFD.
int PrintPieces(const v1::TokenizeResponse& tokens, Connection& connection) {
  std::string pieces;
  for (const uint32_t id : tokens.input_ids()) {
    v1::DetokenizeRequest request;
    request.add_ids(id);
    v1::DetokenizeResponse piece;
    const int exit_code =
        CallServer(connection, &Client::Detokenize, request, piece);
    if (exit_code != kExitOk) return exit_code;
    absl::StrAppend(&pieces, pieces.empty() ? "" : ",",
                    JsonString(piece.text()));
  }
  std::printf("{\"input_ids\":[%s],\"pieces\":[%s]}\n",
              absl::StrJoin(tokens.input_ids(), ",").c_str(), pieces.c_str());
  return kExitOk;
}

int Tokenize(const TokenizeFlags& flags, Interrupt& interrupt) {
  std::string text;
  int exit_code = ReadText("TEXT", flags.text, text);
  if (exit_code != kExitOk) return exit_code;
  Connection connection(flags.connection, interrupt);
  v1::TokenizeRequest request;
  request.set_text(text);
  if (flags.no_special) request.set_parse_special_tokens(false);
  v1::TokenizeResponse tokens;
  exit_code = CallServer(connection, &Client::Tokenize, request, tokens);
  if (exit_code != kExitOk) return exit_code;
  if (flags.connection.json) return PrintPieces(tokens, connection);
  std::puts(absl::StrJoin(tokens.input_ids(), " ").c_str());
  return kExitOk;
}

struct DetokenizeFlags {
  ConnectionFlags connection;
  std::vector<uint32_t> ids;
  bool skip_special = false;
};

int Detokenize(const DetokenizeFlags& flags, Interrupt& interrupt) {
  Connection connection(flags.connection, interrupt);
  v1::DetokenizeRequest request;
  request.mutable_ids()->Assign(flags.ids.begin(), flags.ids.end());
  if (flags.skip_special) request.set_skip_special_tokens(true);
  v1::DetokenizeResponse response;
  const int exit_code =
      CallServer(connection, &Client::Detokenize, request, response);
  if (exit_code != kExitOk) return exit_code;
  if (flags.connection.json) {
    std::puts(ToJson(response).c_str());
  } else {
    const bool terminal = isatty(STDOUT_FILENO) != 0;
    std::puts((terminal ? SafeForTerminal(response.text()) : response.text())
                  .c_str());
  }
  return kExitOk;
}

}  // namespace

Command AddTokenizeCommand(CommandLine& app, Interrupt& interrupt) {
  auto flags = std::make_shared<TokenizeFlags>();
  CommandLine& command = app.AddCommand(
      "tokenize",
      "The tokens of a text; with --json, the text of each as well.");
  command.Add("TEXT", flags->text,
              "text; \"-\", or none in a pipe: all of stdin");
  command.AddSwitch("--no-special", flags->no_special,
                    "read the text of a special token as any other text");
  flags->connection.AddTo(command);
  return [flags, &interrupt] { return Tokenize(*flags, interrupt); };
}

Command AddDetokenizeCommand(CommandLine& app, Interrupt& interrupt) {
  auto flags = std::make_shared<DetokenizeFlags>();
  CommandLine& command =
      app.AddCommand("detokenize", "The text of some tokens.");
  command.Add("IDS", flags->ids, "tokens").Required();
  command.AddSwitch("--skip-special", flags->skip_special,
                    "leave special tokens out");
  flags->connection.AddTo(command);
  return [flags, &interrupt] { return Detokenize(*flags, interrupt); };
}

}  // namespace bole
