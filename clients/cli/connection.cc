#include "clients/cli/connection.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "clients/cli/failure.h"
#include "clients/cli/output.h"
#include "clients/cli/terminal.h"
#include "clients/sdk/call_error.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

// {"code":...,"message":...}, and what of the rest is there.
std::string ErrorJson(const Failure& failure, const CallError& error) {
  nlohmann::ordered_json json = {{"code", failure.code},
                                 {"message", error.message}};
  if (!error.reason.empty()) json["reason"] = error.reason;
  if (!error.metadata.empty()) json["metadata"] = error.metadata;
  for (const FieldViolation& violation : error.violations) {
    json["fields"].push_back(
        {{"field", violation.field}, {"description", violation.description}});
  }
  if (error.retry_after) json["retry_after_ms"] = error.retry_after->count();
  if (error.usage) {
    json["usage"] = nlohmann::ordered_json::parse(ToJson(*error.usage));
  }
  return json.dump(/*indent=*/-1, /*indent_char=*/' ', /*ensure_ascii=*/false,
                   nlohmann::json::error_handler_t::replace);
}

}  // namespace

void ConnectionFlags::AddTo(CommandLine& command) {
  command.Add("--server", server, "address of the scheduler")
      .Environment("BOLE_SERVER");
  command.Add("--model", model, "name of the model, if several are served")
      .Environment("BOLE_MODEL");
  command
      .Add("--timeout", timeout_seconds,
           "seconds that a call may take; without it, as long as needed")
      .Range(0.001, 1e6);
  command.AddSwitch("--json", json, "print one JSON object");
  command
      .Add("--ca", ca_file,
           "speak TLS, with a server whose certificate comes from the "
           "authorities in this PEM file")
      .Environment("BOLE_CA");
  const Flag cert =
      command.Add("--cert", cert_file, "PEM file with the client's certificate")
          .Environment("BOLE_CERT");
  command.Add("--key", key_file, "PEM file with the key of --cert")
      .Environment("BOLE_KEY")
      .Needs(cert);
  command
      .Add("--token-file", token_file, "file with the token that says who asks")
      .Environment("BOLE_TOKEN_FILE");
}

ClientOptions ConnectionFlags::ToClientOptions() const {
  ClientOptions options{.address = server,
                        .model = model,
                        .ca_file = ca_file,
                        .cert_file = cert_file,
                        .key_file = key_file,
                        .token_file = token_file,
                        // The exit code says that it is worth another try.
                        .retry = {.max_attempts = 1}};
  if (timeout_seconds) {
    options.timeout = std::chrono::milliseconds(
        static_cast<int64_t>(std::ceil(*timeout_seconds * 1000)));
  }
  return options;
}

std::unique_ptr<Client> CreateClient(const ClientOptions& options) {
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Create(options);
  if (client.ok()) return *std::move(client);
  // Not exit(): the thread of Interrupt is waiting.
  _exit(UsageError(std::string(client.status().message())));
}

Connection::Connection(const ConnectionFlags& flags, Interrupt& interrupt)
    : flags_(flags),
      interrupt_(interrupt),
      client_(CreateClient(flags.ToClientOptions())) {
  const auto& channel = client_->channel().channel();
  health_ = grpc::health::v1::Health::NewStub(channel);
  peers_ = peer::v1::Peers::NewStub(channel);
}

int Connection::Report(const grpc::Status& status) const {
  return Report(ReadError(status));
}

int Connection::Report(const absl::Status& status) const {
  return Report(ReadError(status));
}

int Connection::Report(const CallError& error) const {
  const bool reached =
      client_->channel().channel()->GetState(/*try_to_connect=*/false) !=
      GRPC_CHANNEL_TRANSIENT_FAILURE;
  const Failure failure =
      Explain(error, {.address = flags_.server,
                      .reached = reached,
                      .timeout_seconds = flags_.timeout_seconds});
  const std::string sentence = isatty(STDERR_FILENO) != 0
                                   ? SafeForTerminal(failure.sentence)
                                   : failure.sentence;
  std::fprintf(stderr, "bole: %s\n", sentence.c_str());
  if (flags_.json) {
    std::printf("{\"error\":%s}\n", ErrorJson(failure, error).c_str());
  }
  return failure.exit_code;
}

Call::Call(Connection& connection)
    : cancel_on_interrupt_(connection.interrupt_, context_) {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  if (const auto timeout = connection.flags_.ToClientOptions().timeout) {
    deadline = std::chrono::steady_clock::now() + *timeout;
  }
  connection.client_->channel().Prepare(context_, deadline);
}

}  // namespace bole
