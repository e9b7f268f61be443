// bole.v1.BoleService: what clients reach.
#ifndef BOLE_SCHEDULER_SERVICE_INFERENCE_SERVICE_H_
#define BOLE_SCHEDULER_SERVICE_INFERENCE_SERVICE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/support/server_callback.h"
#include "proto/bole.grpc.pb.h"
#include "scheduler_service/inference_service_call.h"
#include "scheduler_service/mailbox.h"
#include "scheduler_service/metrics.h"
#include "scheduler_service/model_text.h"
#include "scheduler_service/scheduler_loop.h"
#include "scheduler_service/speculation.h"
#include "scheduler_service/task_thread.h"
#include "scheduler_service/worker_presence.h"

namespace bole {

struct InferenceServiceOptions {
  std::string worker_address;  // Reported to clients, as is the next.
  Speculation speculation;
  AdmissionLimits admission;        // The loop's.
  size_t max_open_requests = 4096;  // Generate calls, those read slowly
                                    // included.
};

// Checks and tokenizes on gRPC's threads, hands requests to the loop, and
// writes what the loop puts on their streams. A request that has no chance is
// refused before it is tokenized. Long messages, which take up to seconds, are
// read on a thread of their own: gRPC has few, and streams wait for them.
//
// Thread-safe. Calls must have ended before it is destroyed.
class InferenceService final : public v1::BoleService::CallbackService {
 public:
  // The references must outlive the service.
  InferenceService(const InferenceServiceOptions& options,
                   const ModelText& text, const WorkerPresence& presence,
                   SchedulerLoop& loop, Metrics& metrics);

  // Requests that come from now on are refused with UNAVAILABLE.
  void Drain() { draining_.store(true); }

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
  // Why a request was not admitted, and as what it is counted.
  struct Refusal {
    absl::Status status;
    std::string reason;
  };

  void AdmitOrRefuse(const v1::GenerateRequest& message, GenerateCall& call);
  void Refuse(const Refusal& refusal, GenerateCall& call);
  std::optional<Refusal> Admit(const v1::GenerateRequest& message,
                               GenerateCall& call);
  // What can be said without looking at the message.
  std::optional<Refusal> RefuseAtTheDoor(
      const WorkerPresence::Snapshot& worker) const;

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
  Metrics& metrics_;
  const std::chrono::steady_clock::time_point started_;
  std::atomic<bool> draining_{false};
  std::atomic<size_t> open_calls_{0};
  TaskThread long_messages_;  // Its tasks use the rest: last.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_INFERENCE_SERVICE_H_
