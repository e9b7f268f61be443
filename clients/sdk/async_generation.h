// The answer to a Generate call, delivered by gRPC's own threads.
#ifndef BOLE_CLIENTS_SDK_ASYNC_GENERATION_H_
#define BOLE_CLIENTS_SDK_ASYNC_GENERATION_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "clients/sdk/generation.h"
#include "clients/sdk/server_channel.h"
#include "common/mutex.h"
#include "grpcpp/alarm.h"
#include "proto/bole.grpc.pb.h"

namespace bole {

// Called one at a time by threads of gRPC, which they must not block: the next
// response is read when on_event has returned. Neither may destroy the client.
// Both are destroyed after on_done, so they may own a reference to the call.
struct GenerateHandlers {
  std::function<void(const v1::GenerateResponse&)> on_event =
      [](const v1::GenerateResponse&) {};
  // Called last, and once.
  std::function<void(const absl::Status&, const GenerationStats&)> on_done =
      [](const absl::Status&, const GenerationStats&) {};
};

// Thread-safe. Client::GenerateAsync() makes one, which lives until it has
// ended, even if nobody holds a reference to it. A call costs memory, and no
// thread.
class AsyncGeneration {
 public:
  // `channel` and `stub` must outlive it. `on_ended` is called after on_done,
  // as the last use of this.
  AsyncGeneration(const ServerChannel& channel, v1::BoleService::Stub& stub,
                  Generation generation,
                  std::optional<Generation::TimePoint> deadline,
                  GenerateHandlers handlers,
                  std::function<void(AsyncGeneration*)> on_ended);
  ~AsyncGeneration();

  AsyncGeneration(const AsyncGeneration&) = delete;
  AsyncGeneration& operator=(const AsyncGeneration&) = delete;

  // Call this once, before everything else.
  void Start();

  // on_done is called soon, with CANCELLED unless the call has just ended.
  void Cancel();

 private:
  class Attempt;

  void Begin();
  void End(const grpc::Status& status);
  // The time for the next attempt has come, or the call was cancelled.
  void Wake();
  void Done();

  const ServerChannel& channel_;
  v1::BoleService::Stub& stub_;
  const std::optional<Generation::TimePoint> deadline_;
  GenerateHandlers handlers_;
  const std::function<void(AsyncGeneration*)> on_ended_;
  // While there is an attempt, only that uses it.
  Generation generation_;
  Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Attempt> attempt_ ABSL_GUARDED_BY(mutex_);
  grpc::Alarm alarm_;
};

}  // namespace bole

#endif  // BOLE_CLIENTS_SDK_ASYNC_GENERATION_H_
