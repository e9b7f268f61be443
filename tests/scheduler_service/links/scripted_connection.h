// A worker client, a worker that follows a script, and what the client reports.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_LINKS_SCRIPTED_CONNECTION_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_LINKS_SCRIPTED_CONNECTION_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "scheduler_service/links/grpc_worker_client.h"
#include "tests/scheduler_service/links/fake_worker.h"
#include "tests/scheduler_service/served_model.h"

namespace bole::testing {

// Opens, and waits for the client to end the call.
inline grpc::Status Idle(FakeExecute& call) {
  call.Open();
  call.AwaitClient();
  return grpc::Status::OK;
}

// Patient when it waits for the worker, impatient between attempts.
inline GrpcWorkerClientOptions OptionsFor(const std::string& address) {
  return {.address = address,
          .scheduler = {.name = "tester:1", .instance = 0x7e57},
          .worker_timeout = std::chrono::seconds(20),
          .min_backoff = std::chrono::milliseconds(1),
          .max_backoff = std::chrono::milliseconds(4),
          .aborted_backoff = std::chrono::hours(1)};
}

// The client goes first, then the worker, then the log.
struct Connection {
  explicit Connection(FakeWorker::Script script)
      : Connection(std::move(script), [](auto&) {}) {}
  Connection(FakeWorker::Script script,
             const std::function<void(GrpcWorkerClientOptions&)>& adjust,
             const WorkerDescription& description = TinyWorker())
      : worker(description, std::move(script)) {
    GrpcWorkerClientOptions options = OptionsFor(worker.address());
    adjust(options);
    client = std::make_unique<GrpcWorkerClient>(
        options, [this](WorkerNews event) { log.Add(std::move(event)); });
  }

  EventLog log;
  FakeWorker worker;
  std::unique_ptr<GrpcWorkerClient> client;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_LINKS_SCRIPTED_CONNECTION_H_
