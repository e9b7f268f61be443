// The server that a command talks to.
#ifndef BOLE_CLIENTS_CLI_CONNECTION_H_
#define BOLE_CLIENTS_CLI_CONNECTION_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cli/interrupt.h"
#include "clients/sdk/call_error.h"
#include "clients/sdk/cancellation.h"
#include "clients/sdk/client.h"
#include "clients/sdk/client_options.h"
#include "common/command_line.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "proto/health.grpc.pb.h"
#include "proto/peers.grpc.pb.h"

namespace bole {

struct ConnectionFlags {
  std::string server = "127.0.0.1:8400";
  std::string model;                      // Empty: the only one that is served.
  std::optional<double> timeout_seconds;  // For each call.
  bool json = false;
  // As ClientOptions says.
  std::string ca_file;
  std::string cert_file;
  std::string key_file;
  std::string token_file;

  void AddTo(CommandLine& command);

  ClientOptions ToClientOptions() const;
};

// If an option is invalid or a file cannot be read, prints an error and ends
// the process with kExitUsage.
std::unique_ptr<Client> CreateClient(const ClientOptions& options);

// Used by one thread. `interrupt` must outlive it.
class Connection {
 public:
  // Connects with the first call. Invalid flags end the process as in
  // CreateClient().
  Connection(const ConnectionFlags& flags, Interrupt& interrupt);

  Client& client() { return *client_; }
  Interrupt& interrupt() { return interrupt_; }
  peer::v1::Peers::Stub& peers() { return *peers_; }
  const std::string& model() const { return flags_.model; }
  grpc::health::v1::Health::Stub& health() { return *health_; }

  // Says on stderr, and with --json on stdout too, why a call failed. Returns
  // the exit code.
  //
  // REQUIRES: !status.ok(), and no other call came after it.
  int Report(const grpc::Status& status) const;
  int Report(const absl::Status& status) const;

 private:
  friend class Call;

  int Report(const CallError& error) const;

  const ConnectionFlags flags_;
  Interrupt& interrupt_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
  std::unique_ptr<peer::v1::Peers::Stub> peers_;
};

// The context of one call: it ends with --timeout, and with Ctrl-C.
class Call {
 public:
  explicit Call(Connection& connection);

  grpc::ClientContext* context() { return &context_; }

 private:
  grpc::ClientContext context_;
  CancelOnInterrupt cancel_on_interrupt_;
};

// Makes a call that Ctrl-C ends: `call` calls the client with the options that
// it is given. Stores the answer in `response`, or passes the error to
// Report(). Returns the exit code.
template <typename Response, typename MakeCall>
int CallServer(Connection& connection, Response& response, MakeCall call) {
  Cancellation cancellation;
  const OnInterrupt on_interrupt(connection.interrupt(),
                                 [&] { cancellation.Cancel(); });
  absl::StatusOr<Response> answer =
      call(connection.client(), CallOptions{.cancellation = &cancellation});
  if (!answer.ok()) return connection.Report(answer.status());
  response = *std::move(answer);
  return 0;
}

// `method` is a method of Client that takes a request.
template <typename Method, typename Request, typename Response>
int CallServer(Connection& connection, Method method, const Request& request,
               Response& response) {
  return CallServer(connection, response,
                    [&](Client& client, const CallOptions& options) {
                      return (client.*method)(request, options);
                    });
}

// `method` is a method of Client that takes no request.
template <typename Method, typename Response>
int AskServer(Connection& connection, Method method, Response& response) {
  return CallServer(connection, response,
                    [&](Client& client, const CallOptions& options) {
                      return (client.*method)(options);
                    });
}

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_CONNECTION_H_
