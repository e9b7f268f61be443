#include "scheduler_service/door/grpc/response_writer.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler_service/jobs/failure.h"

namespace bole {
namespace {

absl::Status FaultStatus(ReaderFault fault, const HeldOutput& held) {
  switch (fault) {
    case ReaderFault::kBehind:
      return Failed(
          FailureReason::kSlowReader,
          absl::StrCat(
              "the client fell behind: ", held.undelivered(),
              " bytes of output wait for it, and more may not; read faster"));
    case ReaderFault::kStalled:
      return Failed(
          FailureReason::kSlowReader,
          absl::StrCat("the client stopped reading: a message was not taken in "
                       "time, and ",
                       held.undelivered(), " bytes wait for it; read faster"));
    case ReaderFault::kDoorFull:
      return Failed(
          FailureReason::kSlowReader,
          absl::StrCat(
              "the server holds too much output for its clients, ",
              held.total(),
              " bytes of it for this one; read faster, or come again later"));
  }
  return absl::InternalError("a fault without a name");
}

}  // namespace

std::shared_ptr<ResponseWriter> ResponseWriter::Create(
    const Request& request, ResponseWriterOptions options,
    std::weak_ptr<ResponseSink> sink, TaskPool& delivery) {
  const TokenStreamLimits limits = options.stream;
  std::shared_ptr<ResponseWriter> writer(
      new ResponseWriter(request, std::move(options), std::move(sink)));
  const std::weak_ptr<ResponseWriter> weak = writer;
  writer->stream_ = std::make_shared<TokenStream>(
      [weak, &delivery] {
        delivery.Post([weak] {
          if (const auto self = weak.lock()) self->OnReady();
        });
      },
      limits);
  return writer;
}

ResponseWriter::ResponseWriter(const Request& request,
                               ResponseWriterOptions options,
                               std::weak_ptr<ResponseSink> sink)
    : options_(std::move(options)), sink_(std::move(sink)), encoder_(request) {}

void ResponseWriter::Start() {
  const std::shared_ptr<ResponseSink> sink = sink_.lock();
  if (sink != nullptr) SendNext(*sink);
}

void ResponseWriter::OnReady() {
  const std::shared_ptr<ResponseSink> sink = sink_.lock();
  if (sink == nullptr) return;
  if (stream_->overflowed()) EndForReader(ReaderFault::kBehind);
  {
    MutexLock lock(mutex_);
    told_ = true;
    if (busy_ || ended_) return;
    busy_ = true;
  }
  SendNext(*sink);
}

void ResponseWriter::SendNext(ResponseSink& sink) {
  do {
    while (!end_) {
      TokenDelta delta = stream_->Take();
      if (delta.empty()) break;
      end_ = std::move(delta.end);
      if (delta.tokens.empty() && delta.text.empty()) continue;
      response_ = encoder_.Add(delta);
      if (options_.complete_only) {
        MutexLock lock(mutex_);
        kept_bytes_ = encoder_.kept_bytes();
        continue;
      }
      NoteWrite();
      sink.Send(response_);
      return;
    }
    if (end_) {
      SendEnd(sink);
      return;
    }
  } while (!GiveBack(sink));
}

void ResponseWriter::SendEnd(ResponseSink& sink) {
  // The loop calls a stream that overflowed cancelled.
  if (stream_->overflowed()) EndForReader(ReaderFault::kBehind);
  if (end_->ok()) {
    response_ = encoder_.Complete(**end_);
    NoteWrite();
    {
      MutexLock lock(mutex_);
      ended_ = true;
    }
    sink.SendLast(response_);
    return;
  }
  absl::Status status = end_->status();
  {
    MutexLock lock(mutex_);
    ended_ = true;
    if (fault_) status = *fault_;
  }
  sink.End(status);
}

bool ResponseWriter::GiveBack(ResponseSink& sink) {
  absl::Status status;
  {
    MutexLock lock(mutex_);
    if (std::exchange(told_, false)) return false;
    busy_ = false;
    if (cancelled_) status = absl::CancelledError("the client cancelled");
    if (fault_) status = *fault_;
    ended_ = !status.ok();
  }
  if (!status.ok()) sink.End(status);
  return true;
}

void ResponseWriter::NoteWrite() {
  const size_t bytes = response_.SpaceUsedLong() + response_.ByteSizeLong();
  MutexLock lock(mutex_);
  kept_bytes_ = encoder_.kept_bytes();
  write_ = {.bytes = bytes, .started = std::chrono::steady_clock::now()};
}

void ResponseWriter::OnWriteDone(bool ok) {
  const std::shared_ptr<ResponseSink> sink = sink_.lock();
  if (sink == nullptr) return;
  absl::Status status;
  {
    MutexLock lock(mutex_);
    write_.reset();
    // The cancellation that broke the write is on its way.
    if (!ok) cancelled_ = true;
    if (cancelled_) status = absl::CancelledError("the client cancelled");
    if (fault_) status = *fault_;
    ended_ = !status.ok();
  }
  if (status.ok()) {
    SendNext(*sink);
  } else {
    sink->End(status);
  }
}

void ResponseWriter::OnCancel(bool overdue) {
  const std::shared_ptr<ResponseSink> sink = sink_.lock();
  if (sink == nullptr) return;
  if (!overdue) stream_->Cancel();
  stream_->Discard();
  {
    MutexLock lock(mutex_);
    cancelled_ = true;
    if (busy_ || ended_) return;
    ended_ = true;
  }
  sink->End(absl::CancelledError("the client cancelled"));
}

HeldOutput ResponseWriter::held() const {
  const size_t waiting = stream_->waiting_bytes();
  MutexLock lock(mutex_);
  if (fault_) return {};  // About to be freed.
  return {.waiting = waiting, .kept = kept_bytes_, .write = write_};
}

void ResponseWriter::EndForReader(ReaderFault fault) {
  const std::shared_ptr<ResponseSink> sink = sink_.lock();
  if (sink == nullptr) return;
  const absl::Status why = FaultStatus(fault, held());
  bool break_write = false;
  {
    MutexLock lock(mutex_);
    // An end without a message is not held up by the reader.
    if (fault_ || cancelled_ || (ended_ && !write_)) return;
    fault_ = why;
    break_write = busy_;
    ended_ = true;
  }
  stream_->Cancel();
  stream_->Discard();
  if (break_write) {
    if (!sink->Break(why)) return;
  } else {
    sink->End(why);
  }
  if (options_.on_fault) options_.on_fault(fault);
}

}  // namespace bole
