#include "clients/cli/connection.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "clients/call_error.h"
#include "clients/cli/failure.h"
#include "clients/cli/output.h"
#include "clients/cli/terminal.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
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

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address,
                                           bool own_connection) {
  grpc::ChannelArguments arguments;
  // An answer with the log probabilities of a long text is larger than gRPC's
  // usual limit.
  constexpr int kMaxMessageBytes = 256 << 20;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // A server that is starting is found soon.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // The address is where we connect; a proxy for the web is not asked.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (own_connection) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

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
}

Connection::Connection(const ConnectionFlags& flags, Interrupt& interrupt)
    : flags_(flags),
      interrupt_(interrupt),
      channel_(OpenChannel(flags.server)),
      bole_(v1::BoleService::NewStub(channel_)),
      admin_(v1::Admin::NewStub(channel_)),
      health_(grpc::health::v1::Health::NewStub(channel_)),
      peers_(peer::v1::Peers::NewStub(channel_)) {}

int Connection::Report(const grpc::Status& status) const {
  const bool reached = channel_->GetState(/*try_to_connect=*/false) !=
                       GRPC_CHANNEL_TRANSIENT_FAILURE;
  const CallError error = ReadError(status);
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
  if (connection.flags_.timeout_seconds) {
    context_.set_deadline(
        std::chrono::system_clock::now() +
        std::chrono::duration_cast<std::chrono::system_clock::duration>(
            std::chrono::duration<double>(*connection.flags_.timeout_seconds)));
  }
}

}  // namespace bole
