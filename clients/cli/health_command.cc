// bole health: whether the server serves.
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/failure.h"
#include "clients/cli/output.h"
#include "common/command_line.h"

namespace bole {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using SystemTime = std::chrono::system_clock::time_point;

struct Flags {
  ConnectionFlags connection;
  std::optional<double> wait_seconds;
  // The process, and whether it can answer requests.
  std::vector<std::string> services = {"", "bole.v1.BoleService"};
};

HealthCheckRequest RequestFor(const std::string& service) {
  HealthCheckRequest request;
  request.set_service(service);
  return request;
}

// Returns once `service` serves, `deadline` is past, or the server cannot be
// watched: Check() says which. False: Ctrl-C was pressed.
bool WaitUntilServing(const std::string& service, SystemTime deadline,
                      Connection& connection) {
  grpc::StatusCode ended_with = grpc::StatusCode::UNAVAILABLE;
  while (ended_with == grpc::StatusCode::UNAVAILABLE) {
    Call call(connection);
    call.context()->set_wait_for_ready(true);
    call.context()->set_deadline(deadline);
    const std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader =
        connection.health().Watch(call.context(), RequestFor(service));
    HealthCheckResponse response;
    while (reader->Read(&response)) {
      if (response.status() == HealthCheckResponse::SERVING) return true;
    }
    ended_with = reader->Finish().error_code();
  }
  return ended_with != grpc::StatusCode::CANCELLED;
}

const char* Name(const std::string& service) {
  return service.empty() ? "server" : service.c_str();
}

// Prints what the server says of each service. Returns the exit code.
int PrintHealth(const Flags& flags, Connection& connection) {
  bool serving = true;
  std::string json;
  for (const std::string& service : flags.services) {
    Call call(connection);
    HealthCheckResponse response;
    const grpc::Status status = connection.health().Check(
        call.context(), RequestFor(service), &response);
    if (!status.ok()) return connection.Report(status);
    serving = serving && response.status() == HealthCheckResponse::SERVING;
    const std::string& said =
        HealthCheckResponse::ServingStatus_Name(response.status());
    if (!flags.connection.json) {
      std::printf("%-22s%s\n", Name(service), said.c_str());
    }
    json += (json.empty() ? "{" : ",") + JsonString(service) + ":" +
            JsonString(said);
  }
  if (flags.connection.json) std::printf("%s}\n", json.c_str());
  return serving ? kExitOk : kExitError;
}

int Run(const Flags& flags, Interrupt& interrupt) {
  Connection connection(flags.connection, interrupt);
  if (flags.wait_seconds) {
    const SystemTime deadline =
        std::chrono::system_clock::now() +
        std::chrono::duration_cast<SystemTime::duration>(
            std::chrono::duration<double>(*flags.wait_seconds));
    for (const std::string& service : flags.services) {
      if (!WaitUntilServing(service, deadline, connection)) {
        return kExitCancelled;
      }
    }
  }
  return PrintHealth(flags, connection);
}

}  // namespace

Command AddHealthCommand(CommandLine& app, Interrupt& interrupt) {
  auto flags = std::make_shared<Flags>();
  CommandLine& command = app.AddCommand(
      "health", "Whether the server serves: exit code 0 if so, 1 if not.");
  command
      .Add("--wait", flags->wait_seconds,
           "wait so many seconds at most until it does")
      .Range(0.0, 1e6);
  command
      .Add("--service", flags->services,
           "ask for this service of the server's instead, such as "
           "bole.worker.v1.Worker of a worker; any number of times")
      .OneValueEachTime();
  flags->connection.AddTo(command);
  return [flags, &interrupt] { return Run(*flags, interrupt); };
}

}  // namespace bole
