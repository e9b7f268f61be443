#include "worker_service/serving/worker_service_call.h"

#include "proto/grpc_status.h"

namespace bole {

void CalibrateCall::Report(worker::v1::CalibrateProgress progress) {
  MutexLock lock(mutex_);
  next_ = std::move(progress);
  WriteNext();
}

void CalibrateCall::End(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    end_ = status;
  }
  FinishIfOver();
}

void CalibrateCall::OnWriteDone(bool ok) {
  {
    MutexLock lock(mutex_);
    writing_ = false;
    broken_ = broken_ || !ok;
    WriteNext();
  }
  FinishIfOver();
}

void CalibrateCall::WriteNext() {
  if (writing_ || broken_ || !next_) return;
  written_ = *std::exchange(next_, std::nullopt);
  writing_ = true;
  StartWrite(&written_);
}

void CalibrateCall::FinishIfOver() {
  grpc::Status status;
  {
    MutexLock lock(mutex_);
    if (writing_ || !end_ || finished_) return;
    finished_ = true;
    status = ToGrpcStatus(*end_);
  }
  Finish(status);
}

}  // namespace bole
