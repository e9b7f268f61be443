// The worker client that speaks gRPC.
#ifndef BOLE_SCHEDULER_SERVICE_GRPC_WORKER_CLIENT_H_
#define BOLE_SCHEDULER_SERVICE_GRPC_WORKER_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "grpcpp/client_context.h"
#include "proto/worker.grpc.pb.h"
#include "scheduler_service/grpc_worker_client_stream.h"
#include "scheduler_service/worker_client.h"

namespace bole {

struct GrpcWorkerClientOptions {
  std::string address;  // As gRPC reads it: "127.0.0.1:50052".
  // A worker from which nothing is heard for so long is lost.
  std::chrono::milliseconds worker_timeout{10'000};
  // Between two attempts: doubled after each that fails, and shortened at
  // random by up to a half.
  std::chrono::milliseconds min_backoff{50};
  std::chrono::milliseconds max_backoff{2'000};
  // After another scheduler took the worker over. Without it two schedulers
  // would take it from each other without end.
  std::chrono::milliseconds taken_over_backoff{30'000};
};

// Connects to one worker from its construction to its destruction, again and
// again. Epochs are microseconds since 1970, so that those of a scheduler that
// was started again are higher; a worker that knows a higher one yet is
// approached with ever higher ones.
//
// Thread-safe. The sink is called by several threads, never by two at a time,
// and not after the destructor.
class GrpcWorkerClient final : public WorkerClient {
 public:
  GrpcWorkerClient(const GrpcWorkerClientOptions& options,
                   std::function<void(WorkerEvent)> sink);
  ~GrpcWorkerClient() override;

  GrpcWorkerClient(const GrpcWorkerClient&) = delete;
  GrpcWorkerClient& operator=(const GrpcWorkerClient&) = delete;

  void Send(uint64_t epoch, uint64_t plan_number,
            const StepPlan& plan) override;
  void Close(uint64_t epoch) override;
  void Disconnect(uint64_t epoch, const absl::Status& why) override;

 private:
  void Run();
  // Connects, and returns why the connection ended or was not made.
  absl::Status RunConnection(uint64_t epoch);
  absl::StatusOr<WorkerDescription> Describe(worker::v1::Worker::Stub& stub);
  uint64_t NextEpoch(uint64_t last, const absl::Status& why);
  // Returns false if the client is being destroyed.
  bool WaitBeforeRetry(const absl::Status& why);

  const GrpcWorkerClientOptions options_;
  const std::function<void(WorkerEvent)> sink_;

  // Used by the thread alone.
  std::minstd_rand random_;
  std::chrono::milliseconds backoff_;
  std::chrono::microseconds epoch_lead_{
      0};  // How far epochs are ahead of the clock.

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // The call that is going on; null if there is none.
  grpc::ClientContext* describing_ ABSL_GUARDED_BY(mutex_) = nullptr;
  WorkerStream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;

  std::thread thread_;  // Reads the rest: last.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_GRPC_WORKER_CLIENT_H_
