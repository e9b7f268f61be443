// The server that a command talks to.
#ifndef BOLE_CLIENTS_CLI_CONNECTION_H_
#define BOLE_CLIENTS_CLI_CONNECTION_H_

#include <memory>
#include <optional>
#include <string>

#include "clients/cli/interrupt.h"
#include "common/command_line.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "proto/bole.grpc.pb.h"
#include "proto/health.grpc.pb.h"

namespace bole {

struct ConnectionFlags {
  std::string server = "127.0.0.1:8400";
  std::string model;                      // Empty: the only one that is served.
  std::optional<double> timeout_seconds;  // For each call.
  bool json = false;

  void AddTo(CommandLine& command);
};

// A channel to the scheduler at `address` that connects with its first call.
// Channels of one process share a TCP connection unless `own_connection`.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address,
                                           bool own_connection = false);

// One thread uses it. What is passed in outlives it.
class Connection {
 public:
  // Connects with the first call.
  Connection(const ConnectionFlags& flags, Interrupt& interrupt);

  v1::BoleService::Stub& bole() { return *bole_; }
  v1::Admin::Stub& admin() { return *admin_; }
  const std::string& model() const { return flags_.model; }
  grpc::health::v1::Health::Stub& health() { return *health_; }

  // Says on stderr, and with --json on stdout too, why a call failed. Returns
  // the exit code.
  //
  // REQUIRES: !status.ok(), and no other call came after it.
  int Report(const grpc::Status& status) const;

 private:
  friend class Call;

  const ConnectionFlags flags_;
  Interrupt& interrupt_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::BoleService::Stub> bole_;
  std::unique_ptr<v1::Admin::Stub> admin_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
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

// A unary call, about the model of the connection: its answer is in `response`,
// and Report() tells if it failed. `method` is one of `stub`. Returns the exit
// code.
template <typename Stub, typename Method, typename Request, typename Response>
int CallUnary(Connection& connection, Stub& stub, Method method,
              Request request, Response& response) {
  if constexpr (requires { request.set_model(connection.model()); }) {
    request.set_model(connection.model());
  }
  Call call(connection);
  const grpc::Status status =
      (stub.*method)(call.context(), request, &response);
  return status.ok() ? 0 : connection.Report(status);
}

// `method` is one of v1::BoleService::Stub.
template <typename Method, typename Request, typename Response>
int CallBole(Connection& connection, Method method, const Request& request,
             Response& response) {
  return CallUnary(connection, connection.bole(), method, request, response);
}

// `method` is one of v1::Admin::Stub.
template <typename Method, typename Request, typename Response>
int CallAdmin(Connection& connection, Method method, const Request& request,
              Response& response) {
  return CallUnary(connection, connection.admin(), method, request, response);
}

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_CONNECTION_H_
