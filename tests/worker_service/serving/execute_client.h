// A scheduler's side of an Execute call, one message at a time.
#ifndef BOLE_TESTS_WORKER_SERVICE_SERVING_EXECUTE_CLIENT_H_
#define BOLE_TESTS_WORKER_SERVICE_SERVING_EXECUTE_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/step.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"
#include "proto/worker.grpc.pb.h"

namespace bole::testing {

// The first request of a scheduler of this version; all of them are one
// instance.
worker::v1::ExecuteRequest HelloAt(uint64_t epoch);

// Every call blocks, for 30 seconds at most. Not thread-safe, but for Cancel().
class ExecuteClient {
 public:
  explicit ExecuteClient(const std::shared_ptr<grpc::Channel>& channel);
  ~ExecuteClient();  // Cancel().

  void SendHello(uint64_t epoch) { Send(HelloAt(epoch)); }
  void SendPlan(uint64_t epoch, uint64_t sequence, const StepPlan& plan);
  void Send(const worker::v1::ExecuteRequest& request);

  // Empty: the stream has ended.
  std::optional<worker::v1::ExecuteResponse> Receive();
  // The next that is no heartbeat. The test fails if the stream has ended.
  worker::v1::ExecuteResponse ReceiveOpened();
  worker::v1::StepOutcome ReceiveOutcome();
  // The next heartbeat; outcomes before it are lost.
  worker::v1::Heartbeat ReceiveHeartbeat();

  // Reads to the end.
  grpc::Status Finish();

  void Cancel() { context_.TryCancel(); }
  void CloseWrites() { stream_->WritesDone(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<worker::v1::Worker::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<worker::v1::ExecuteRequest,
                                           worker::v1::ExecuteResponse>>
      stream_;
  bool finished_ = false;
};

// Opens a stream at `epoch`; the test fails if it is not let in.
std::unique_ptr<ExecuteClient> OpenAt(
    const std::shared_ptr<grpc::Channel>& channel, uint64_t epoch);

}  // namespace bole::testing

#endif  // BOLE_TESTS_WORKER_SERVICE_SERVING_EXECUTE_CLIENT_H_
