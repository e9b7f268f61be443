// bole tokenize: the tokens of a text.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/failure.h"
#include "clients/cli/json_output.h"
#include "clients/cli/prompt.h"
#include "common/command_line.h"

namespace bole {
namespace {

struct Flags {
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
    const int exit_code = CallBole(
        connection, &v1::BoleService::Stub::Detokenize, request, piece);
    if (exit_code != kExitOk) return exit_code;
    absl::StrAppend(&pieces, pieces.empty() ? "" : ",",
                    JsonString(piece.text()));
  }
  std::printf("{\"input_ids\":[%s],\"pieces\":[%s]}\n",
              absl::StrJoin(tokens.input_ids(), ",").c_str(), pieces.c_str());
  return kExitOk;
}

int Run(const Flags& flags, Interrupt& interrupt) {
  std::string text;
  int exit_code = ReadText("TEXT", flags.text, text);
  if (exit_code != kExitOk) return exit_code;
  Connection connection(flags.connection, interrupt);
  v1::TokenizeRequest request;
  request.set_text(text);
  if (flags.no_special) request.set_parse_special_tokens(false);
  v1::TokenizeResponse tokens;
  exit_code =
      CallBole(connection, &v1::BoleService::Stub::Tokenize, request, tokens);
  if (exit_code != kExitOk) return exit_code;
  if (flags.connection.json) return PrintPieces(tokens, connection);
  std::puts(absl::StrJoin(tokens.input_ids(), " ").c_str());
  return kExitOk;
}

}  // namespace

Command AddTokenizeCommand(CommandLine& app, Interrupt& interrupt) {
  auto flags = std::make_shared<Flags>();
  CommandLine& command = app.AddCommand(
      "tokenize",
      "The tokens of a text; with --json, the text of each as well.");
  command.Add("TEXT", flags->text,
              "text; \"-\", or none in a pipe: all of stdin");
  command.AddSwitch("--no-special", flags->no_special,
                    "read the text of a special token as any other text");
  flags->connection.AddTo(command);
  return [flags, &interrupt] { return Run(*flags, interrupt); };
}

}  // namespace bole
