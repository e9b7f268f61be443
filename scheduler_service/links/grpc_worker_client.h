// The worker client that speaks gRPC.
#ifndef BOLE_SCHEDULER_SERVICE_LINKS_GRPC_WORKER_CLIENT_H_
#define BOLE_SCHEDULER_SERVICE_LINKS_GRPC_WORKER_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/net/client_credentials.h"
#include "common/step.h"
#include "common/trace/plan_trace.h"
#include "common/trace/trace_context.h"
#include "grpcpp/client_context.h"
#include "proto/worker.grpc.pb.h"
#include "scheduler_service/links/grpc_worker_client_stream.h"
#include "scheduler_service/links/scheduler_identity.h"
#include "scheduler_service/links/worker_client.h"

namespace bole {

struct GrpcWorkerClientOptions {
  std::string address;  // In gRPC's format: "127.0.0.1:50052".
  SchedulerIdentity scheduler;
  ClientCredentials credentials = {};
  // A worker from which nothing is heard for this long is lost.
  std::chrono::milliseconds worker_timeout{10'000};
  // The pause between two attempts to connect: doubled after each that fails,
  // and shortened at random by up to a half.
  std::chrono::milliseconds min_backoff{50};
  std::chrono::milliseconds max_backoff{2'000};
  // The pause after ABORTED, which another scheduler causes that takes the
  // worker over, or Disconnect(). Without it two schedulers would take the
  // worker from each other without end.
  std::chrono::milliseconds aborted_backoff{30'000};
  // If set, a connection is made only by Connect(). While there is none, the
  // worker is asked for its description at `look_interval` or, while it does
  // not answer, at the pauses above, and this function is called with the
  // answer.
  std::function<void(const absl::StatusOr<WorkerDescription>&)> on_look =
      nullptr;
  std::chrono::milliseconds look_interval{1'000};
};

// Connects to one worker from its construction to its destruction, again and
// again, even while the worker obeys another scheduler: then the connection is
// lost because of the worker's refusal, which names that scheduler. With
// `on_look` it connects only when it is told to.
//
// Epochs increase, and are microseconds since 1970, so that status and logs say
// when a connection was made.
//
// Thread-safe. The sink and `on_look` are called by several threads, never by
// two at a time, and not after the destructor.
class GrpcWorkerClient final : public WorkerClient {
 public:
  GrpcWorkerClient(const GrpcWorkerClientOptions& options,
                   std::function<void(WorkerNews)> sink);
  ~GrpcWorkerClient() override;

  GrpcWorkerClient(const GrpcWorkerClient&) = delete;
  GrpcWorkerClient& operator=(const GrpcWorkerClient&) = delete;

  // Makes one attempt to connect, soon. WorkerLost follows in the end, and
  // WorkerConnected before it if the attempt succeeds. REQUIRES: `on_look` is
  // set, and earlier attempts have ended with WorkerLost.
  void Connect();

  void Send(uint64_t epoch, uint64_t plan_number, const StepPlan& plan,
            const PlanTrace& trace) override;
  void EndSpans(uint64_t epoch, const std::vector<SpanId>& spans) override;
  void Close(uint64_t epoch) override;
  void Disconnect(uint64_t epoch, const absl::Status& why) override;

 private:
  void Run();
  // Whether to connect now. Clears the request of Connect().
  bool IsToConnect();
  // Connects, and returns why the connection ended or was not made.
  absl::Status RunConnection(uint64_t epoch);
  absl::Status Look();
  absl::StatusOr<WorkerDescription> Describe(worker::v1::Worker::Stub& stub);
  std::chrono::milliseconds PauseAfter(const absl::Status& why);
  // Returns false if the client is being destroyed.
  bool WaitBeforeRetry(const absl::Status& why);

  const GrpcWorkerClientOptions options_;
  const std::function<void(WorkerNews)> sink_;

  // Used by the thread alone.
  std::minstd_rand random_;
  std::chrono::milliseconds backoff_;
  bool closed_ = false;  // The last connection ended in good order.

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;  // By Connect().
  // The call that is under way; null if there is none.
  grpc::ClientContext* describing_ ABSL_GUARDED_BY(mutex_) = nullptr;
  WorkerStream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;

  std::thread thread_;  // Uses the rest, so it comes last.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_LINKS_GRPC_WORKER_CLIENT_H_
