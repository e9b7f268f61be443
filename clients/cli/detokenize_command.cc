// bole detokenize: the text of tokens.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/failure.h"
#include "clients/cli/json_output.h"
#include "clients/cli/terminal_text.h"
#include "common/command_line.h"

namespace bole {
namespace {

struct Flags {
  ConnectionFlags connection;
  std::vector<uint32_t> ids;
  bool skip_special = false;
};

int Run(const Flags& flags, Interrupt& interrupt) {
  Connection connection(flags.connection, interrupt);
  v1::DetokenizeRequest request;
  request.mutable_ids()->Assign(flags.ids.begin(), flags.ids.end());
  if (flags.skip_special) request.set_skip_special_tokens(true);
  v1::DetokenizeResponse response;
  const int exit_code = CallBole(connection, &v1::BoleService::Stub::Detokenize,
                                 request, response);
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

Command AddDetokenizeCommand(CommandLine& app, Interrupt& interrupt) {
  auto flags = std::make_shared<Flags>();
  CommandLine& command =
      app.AddCommand("detokenize", "The text of some tokens.");
  command.Add("IDS", flags->ids, "tokens").Required();
  command.AddSwitch("--skip-special", flags->skip_special,
                    "leave special tokens out");
  flags->connection.AddTo(command);
  return [flags, &interrupt] { return Run(*flags, interrupt); };
}

}  // namespace bole
