// bole.v1.BoleService: what clients reach.
#ifndef BOLE_SCHEDULER_SERVICE_INFERENCE_SERVICE_H_
#define BOLE_SCHEDULER_SERVICE_INFERENCE_SERVICE_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/support/server_callback.h"
#include "prometheus/registry.h"
#include "proto/bole.grpc.pb.h"
#include "scheduler_service/door_limits.h"
#include "scheduler_service/door_metrics.h"
#include "scheduler_service/generate_call.h"
#include "scheduler_service/mailbox.h"
#include "scheduler_service/model_text.h"
#include "scheduler_service/open_calls.h"
#include "scheduler_service/request.h"
#include "scheduler_service/scheduler_loop.h"
#include "scheduler_service/speculation.h"
#include "scheduler_service/task_pool.h"
#include "scheduler_service/worker_presence.h"

namespace bole {

struct InferenceServiceOptions {
  std::string worker_address;  // Reported to clients, as is `speculation`.
  Speculation speculation;
  AdmissionLimits admission;  // The loop's.
  DoorLimits door;
};

// Checks and tokenizes on gRPC's threads, hands requests to the loop, and
// writes what the loop puts on their streams. A request that has no chance is
// refused before it is tokenized. gRPC has few threads, and streams wait for
// them, so work that takes long is done by other threads: one reads the long
// messages of Generate, one those of Tokenize and Detokenize, and some encode
// what the loop appends to streams.
//
// Thread-safe. Calls must have ended before it is destroyed.
class InferenceService final : public v1::BoleService::CallbackService {
 public:
  // The references must outlive the service.
  InferenceService(const InferenceServiceOptions& options,
                   const ModelText& text, const WorkerPresence& presence,
                   SchedulerLoop& loop, prometheus::Registry& registry);

  // Requests that come from now on are refused with UNAVAILABLE.
  void Drain() { draining_.store(true); }

  // Waits until the Generate calls that are open now have ended, which is when
  // their clients have taken the last message; or until `deadline`, or until
  // StopWaiting(). Returns whether they have.
  bool AwaitDelivery(TimePoint deadline) {
    return open_calls_.AwaitNone(deadline);
  }
  void StopWaiting() { open_calls_.StopWaiting(); }

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context,
      const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(
      grpc::CallbackServerContext* context,
      const v1::DetokenizeRequest* request,
      v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* GetModelInfo(
      grpc::CallbackServerContext* context,
      const v1::GetModelInfoRequest* request,
      v1::GetModelInfoResponse* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(
      grpc::CallbackServerContext* context,
      const v1::GetServerInfoRequest* request,
      v1::GetServerInfoResponse* response) override;

 private:
  // All of them return OK, or an error that carries its RefusalReason.
  absl::Status Admit(const v1::GenerateRequest& message, GenerateCall& call);
  // Checks what can be checked without looking at the message.
  absl::Status RefuseAtTheDoor(const WorkerPresence::Snapshot& worker) const;
  absl::Status RefuseByTheQueue(const AdmissionLoad& load) const;

  void AdmitOrRefuse(const v1::GenerateRequest& message, GenerateCall& call);
  void ReportLoad(const OpenCallsLoad& load);

  // Ends a unary call with what `answer` returns for the message, on whichever
  // thread is right for it.
  template <typename Message, typename Response>
  grpc::ServerUnaryReactor* AnswerAnywhere(
      grpc::CallbackServerContext* context, const Message* message,
      Response* response,
      absl::StatusOr<Response> (*answer)(const Message&, const ModelText&));

  const InferenceServiceOptions options_;
  const ModelText& text_;
  const WorkerPresence& presence_;
  SchedulerLoop& loop_;
  DoorMetrics metrics_;
  const std::chrono::steady_clock::time_point started_;
  std::atomic<bool> draining_{false};
  // Threads that use what is above them, so they come last.
  TaskPool long_generates_;
  TaskPool long_texts_;
  TaskPool delivery_;
  OpenCalls open_calls_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_INFERENCE_SERVICE_H_
