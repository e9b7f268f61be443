// bole chat: a conversation.
#include <unistd.h>

#include <cstdio>
#include <iostream>
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
#include "common/command_line.h"
#include "common/tokenizer/utf8.h"

namespace bole {
namespace {

constexpr char kHelp[] =
    "/reset  forget the conversation\n"
    "/exit   end, as the end of the input does\n"
    "/help   this\n"
    "Ctrl-C  stop an answer; at the prompt, end\n";

struct Flags {
  ConnectionFlags connection;
  SamplingFlags sampling;
  std::optional<std::string> system;
};

class Conversation {
 public:
  Conversation(const Flags& flags, Connection& connection)
      : flags_(flags), connection_(connection), chat_(NewChat(flags.system)) {}

  void Reset() { chat_ = NewChat(flags_.system); }

  // Prints the answer to `text`. One that was cut off stays in the conversation
  // as far as it came; a turn without any answer does not. Returns the exit
  // code.
  int Say(const std::string& text) {
    if (!IsValidUtf8(text)) return UsageError("the line is not UTF-8");
    AddMessage("user", text, chat_);
    v1::GenerateRequest request;
    *request.mutable_chat() = chat_;
    *request.mutable_sampling_params() = flags_.sampling.ToProto();
    const bool json = flags_.connection.json;
    Answer answer = PrintAnswer(
        connection_, request, json ? AnswerFormat::kJson : AnswerFormat::kText);
    const std::string& said = answer.choices[0].text;
    if (answer.exit_code == kExitOk || !said.empty()) {
      AddMessage("assistant", said, chat_);
    } else {
      chat_.mutable_messages()->RemoveLast();
    }
    if (!json) EndLine(said);
    if (!json && answer.exit_code == kExitOk) {
      SayWhatWasChosen(answer.choices[0].complete.speculation());
    }
    return answer.exit_code;
  }

 private:
  static void SayWhatWasChosen(const v1::Speculation& speculation) {
    const std::string chosen = ChosenText(speculation);
    if (chosen.empty()) return;
    std::fprintf(stderr, "speculation: %s\n", chosen.c_str());
  }

  // Answers in a file are apart; a terminal has its line end already.
  static void EndLine(const std::string& text) {
    if (isatty(STDOUT_FILENO) != 0) return;
    if (!text.empty() && text.back() == '\n') return;
    std::putchar('\n');
    std::fflush(stdout);
  }

  const Flags& flags_;
  Connection& connection_;
  v1::ChatInput chat_;
};

// Whether there is a line. A person is asked for it.
bool ReadLine(bool interactive, std::string& line) {
  if (interactive) std::fputs("> ", stderr);
  if (std::getline(std::cin, line)) return true;
  if (interactive) std::fputs("\n", stderr);
  return false;
}

// A person sees the error and goes on; a program has its first error at once.
int Converse(Conversation& conversation) {
  const bool interactive = isatty(STDIN_FILENO) != 0;
  std::string line;
  while (ReadLine(interactive, line)) {
    if (line.empty()) continue;
    if (line == "/exit") break;
    if (line == "/reset") {
      conversation.Reset();
    } else if (line == "/help") {
      std::fputs(kHelp, stderr);
    } else {
      const int exit_code = conversation.Say(line);
      if (exit_code != kExitOk && !interactive) return exit_code;
    }
  }
  return kExitOk;
}

int Run(const Flags& flags, Interrupt& interrupt) {
  Connection connection(flags.connection, interrupt);
  v1::GetModelInfoResponse model;
  const int exit_code = CallServer(connection, &Client::GetModelInfo,
                                   v1::GetModelInfoRequest(), model);
  if (exit_code != kExitOk) return exit_code;
  if (!model.has_chat_template()) {
    return UsageError("the model " + model.model() +
                      " has no chat template; bole generate continues a text");
  }
  if (isatty(STDIN_FILENO) != 0) {
    std::fprintf(stderr, "%s at %s; /help lists what else can be said\n",
                 model.model().c_str(), flags.connection.server.c_str());
  }
  Conversation conversation(flags, connection);
  return Converse(conversation);
}

}  // namespace

Command AddChatCommand(CommandLine& app, Interrupt& interrupt) {
  auto flags = std::make_shared<Flags>();
  CommandLine& command =
      app.AddCommand("chat", "A conversation: each line of stdin is a turn.");
  command.Add("--system", flags->system, "text of a system turn before");
  flags->sampling.AddTo(command);
  flags->connection.AddTo(command);
  command.Footer(std::string("Instead of a turn:\n") + kHelp + "\n" +
                 kExitCodesHelp);
  return [flags, &interrupt] { return Run(*flags, interrupt); };
}

}  // namespace bole
