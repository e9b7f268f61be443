// One Calibrate call, which sends its messages one after the other.
#ifndef BOLE_WORKER_SERVICE_SERVING_WORKER_SERVICE_CALL_H_
#define BOLE_WORKER_SERVICE_SERVING_WORKER_SERVICE_CALL_H_

#include <functional>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "grpcpp/support/server_callback.h"
#include "proto/worker.pb.h"

namespace bole {

// Sends the latest progress whenever the previous message has been sent, so
// that a slow reader gets fewer messages. Thread-safe. Deletes itself when gRPC
// is done with it, which is after End().
class CalibrateCall final
    : public grpc::ServerWriteReactor<worker::v1::CalibrateProgress> {
 public:
  // `on_cancel` is called, on any thread, if the client cancels the call.
  explicit CalibrateCall(std::function<void()> on_cancel)
      : on_cancel_(std::move(on_cancel)) {}

  void Report(worker::v1::CalibrateProgress progress);

  // The last use of the call: sends the last report, then ends the call.
  void End(const absl::Status& status);

  void OnWriteDone(bool ok) override;
  void OnCancel() override { on_cancel_(); }
  void OnDone() override { delete this; }

 private:
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Finishes the call if it is over. Call it without the lock, because the call
  // may be deleted then.
  void FinishIfOver();

  const std::function<void()> on_cancel_;
  Mutex mutex_;
  worker::v1::CalibrateProgress written_;  // gRPC uses it while writing_.
  std::optional<worker::v1::CalibrateProgress> next_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // Nothing can be sent.
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_SERVING_WORKER_SERVICE_CALL_H_
