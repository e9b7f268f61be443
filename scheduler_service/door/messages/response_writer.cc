#include "scheduler_service/door/messages/response_writer.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler_service/jobs/failure.h"
#include "scheduler_service/jobs/request.h"

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
    const ChoiceRequests& choices, ResponseWriterOptions options,
    std::weak_ptr<ResponseSink> sink, TaskPool& delivery) {
  std::shared_ptr<ResponseWriter> writer(
      new ResponseWriter(std::move(options), std::move(sink)));
  const auto on_ready = [weak = std::weak_ptr(writer), &delivery] {
    delivery.Post([weak] {
      if (const auto self = weak.lock()) self->OnReady();
    });
  };
  const auto waiting = std::make_shared<WaitingBytes>(0);
  writer->texts_.reserve(choices.requests.size());
  std::optional<std::string> echo = choices.echo;  // For the first one.
  for (const std::unique_ptr<Request>& request : choices.requests) {
    request->stream = std::make_shared<TokenStream>(
        on_ready, writer->options_.stream, waiting);
    writer->texts_.push_back(
        {.stream = request->stream,
         .encoder = ResponseEncoder(*request, writer->options_.answer,
                                    {.echo = std::exchange(echo, std::nullopt),
                                     .output = choices.output})});
  }
  return writer;
}

ResponseWriter::ResponseWriter(ResponseWriterOptions options,
                               std::weak_ptr<ResponseSink> sink)
    : options_(std::move(options)), sink_(std::move(sink)) {}

bool ResponseWriter::Overflowed() const {
  return std::any_of(texts_.begin(), texts_.end(), [](const Text& text) {
    return text.stream->overflowed();
  });
}

void ResponseWriter::DropOutput(bool cancel) {
  for (const Text& text : texts_) {
    if (cancel) text.stream->Cancel();
    text.stream->Discard();
  }
}

v1::Usage ResponseWriter::UsageSoFar() const {
  v1::Usage usage = texts_.front().encoder.usage();
  for (size_t i = 1; i < texts_.size(); ++i) {
    usage.set_completion_tokens(usage.completion_tokens() +
                                texts_[i].encoder.usage().completion_tokens());
  }
  return usage;
}

void ResponseWriter::Start() {
  const std::shared_ptr<ResponseSink> sink = sink_.lock();
  if (sink != nullptr) SendNext(*sink);
}

void ResponseWriter::OnReady() {
  const std::shared_ptr<ResponseSink> sink = sink_.lock();
  if (sink == nullptr) return;
  if (Overflowed()) EndForReader(ReaderFault::kBehind);
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
    for (size_t i = 0; i < texts_.size(); ++i) {
      Text& text = texts_[next_];
      next_ = (next_ + 1) % texts_.size();
      if (SendOf(text, sink)) return;
    }
  } while (!GiveBack(sink));
}

bool ResponseWriter::SendOf(Text& text, ResponseSink& sink) {
  while (!text.end) {
    TokenDelta delta = text.stream->Take();
    if (delta.empty()) return false;
    std::optional<v1::GenerateResponse> chunk;
    if (text.encoder.HasOutput(delta)) {
      chunk = text.encoder.Add(delta);
      NoteKept();
    }
    text.end = std::move(delta.end);
    if (!chunk) continue;
    response_ = *std::move(chunk);
    NoteWrite();
    sink.Send(response_);
    return true;
  }
  if (text.complete) return false;
  // The loop reports a stream that overflowed as cancelled.
  if (Overflowed()) EndForReader(ReaderFault::kBehind);
  if (text.end->ok()) {
    SendComplete(text, sink);
  } else {
    Fail(text.end->status(), sink);
  }
  return true;
}

void ResponseWriter::SendComplete(Text& text, ResponseSink& sink) {
  response_ = text.encoder.Complete(**text.end);
  text.complete = true;
  NoteKept();
  NoteWrite();
  if (++num_complete_ < texts_.size()) return sink.Send(response_);
  {
    MutexLock lock(mutex_);
    ended_ = true;
  }
  sink.SendLast(response_);
}

void ResponseWriter::Fail(absl::Status status, ResponseSink& sink) {
  DropOutput(/*cancel=*/true);
  {
    MutexLock lock(mutex_);
    ended_ = true;
    if (fault_) status = *fault_;
  }
  sink.End(status, UsageSoFar());
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
  if (!status.ok()) sink.End(status, UsageSoFar());
  return true;
}

void ResponseWriter::NoteKept() {
  size_t bytes = 0;
  for (const Text& text : texts_) bytes += text.encoder.kept_bytes();
  MutexLock lock(mutex_);
  kept_bytes_ = bytes;
}

void ResponseWriter::NoteWrite() {
  const size_t bytes = response_.SpaceUsedLong() + response_.ByteSizeLong();
  MutexLock lock(mutex_);
  write_ = {.bytes = bytes, .started = std::chrono::steady_clock::now()};
}

void ResponseWriter::OnWriteDone(bool ok) {
  const std::shared_ptr<ResponseSink> sink = sink_.lock();
  if (sink == nullptr) return;
  absl::Status status;
  {
    MutexLock lock(mutex_);
    write_.reset();
    // The cancellation that broke the write will follow.
    if (!ok) cancelled_ = true;
    if (cancelled_) status = absl::CancelledError("the client cancelled");
    if (fault_) status = *fault_;
    ended_ = !status.ok();
  }
  if (status.ok()) {
    SendNext(*sink);
  } else {
    sink->End(status, UsageSoFar());
  }
}

void ResponseWriter::OnCancel(bool overdue) {
  const std::shared_ptr<ResponseSink> sink = sink_.lock();
  if (sink == nullptr) return;
  DropOutput(/*cancel=*/!overdue);
  {
    MutexLock lock(mutex_);
    cancelled_ = true;
    if (busy_ || ended_) return;
    ended_ = true;
  }
  sink->End(absl::CancelledError("the client cancelled"), UsageSoFar());
}

HeldOutput ResponseWriter::held() const {
  size_t waiting = 0;
  for (const Text& text : texts_) waiting += text.stream->waiting_bytes();
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
    // A call that ends without a message does not wait for the reader.
    if (fault_ || cancelled_ || (ended_ && !write_)) return;
    fault_ = why;
    break_write = busy_;
    ended_ = true;
  }
  DropOutput(/*cancel=*/true);
  if (break_write) {
    if (!sink->Break(why)) return;
  } else {
    sink->End(why, UsageSoFar());
  }
  if (options_.on_fault) options_.on_fault(fault);
}

}  // namespace bole
