#include "scheduler_service/door/messages/served_call.h"

#include <chrono>
#include <utility>
#include <variant>

#include "scheduler_service/door/messages/request_codec.h"
#include "scheduler_service/door/request_body.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/models/model_text.h"
#include "scheduler_service/watch/request_watch.h"
#include "scheduler_service/watch/request_watcher.h"

namespace bole {
namespace {

// Output is merged up to this size while a client does not read: a chunk is
// encoded in a fraction of a millisecond, and a client that reads at all takes
// it soon.
constexpr size_t kMaxDeltaBytes = 16 << 10;

}  // namespace

ServedCall::ServedCall(FrontDoor& door, TimePoint arrival, TimePoint deadline)
    : door_(door), arrival_(arrival), deadline_(deadline) {}

void ServedCall::Watch(const RequestHead& head, const std::string& id) {
  const RequestWatcher* const watcher = door_.watcher();
  if (watcher == nullptr || !watcher->is_watching()) return;
  watch_ = watcher->Watch({.id = id,
                           .tenant = door_.TenantOf(head),
                           .traceparent = head.traceparent,
                           .arrival = arrival_});
}

void ServedCall::AdmitBySize(size_t bytes, AdmitFunction admit) {
  if (bytes <= kShortMessageBytes) return AdmitOrRefuse(admit);
  if (!ReadLater(std::move(admit))) {
    Refuse(door_.RefuseLongMessage(door_.long_generates()));
  }
}

void ServedCall::AdmitOrRefuse(const AdmitFunction& admit) {
  // The client may have left while its message waited for its turn.
  const std::optional<Refusal> refusal =
      cancelled() ? CancelledRefusal() : admit();
  if (refusal) Refuse(*refusal);
}

bool ServedCall::ReadLater(AdmitFunction admit) {
  TaskPool& pool = door_.long_generates();
  MutexLock lock(mutex_);
  const std::optional<TaskPool::Ticket> ticket =
      pool.Post([self = shared_from_this(), admit = std::move(admit)] {
        self->AdmitOrRefuse(admit);
      });
  if (ticket) reading_ = {.pool = &pool, .ticket = *ticket};
  return ticket.has_value();
}

std::optional<Refusal> ServedCall::Admit(const RequestHead& head,
                                         const v1::GenerateRequest& message) {
  auto read = door_.Read(
      head, [&](const ModelText& text, const WorkerDescription& worker) {
        return DecodeGenerate(message, text, worker);
      });
  if (auto* refusal = std::get_if<Refusal>(&read)) return *refusal;
  const bool chunks = !message.has_stream() || message.stream();
  return Submit(std::get<ReadMessage>(std::move(read)), chunks);
}

std::optional<Refusal> ServedCall::Submit(ReadMessage message, bool chunks) {
  ChoiceRequests& choices = message.choices;
  const std::shared_ptr<ResponseWriter> writer = ResponseWriter::Create(
      choices,
      {.answer = {.model = message.model.name,
                  .tokenizer = *message.model.text.tokenizer,
                  .chunks = chunks},
       .stream = {.max_waiting_bytes = door_.limits().max_undelivered_bytes,
                  .max_delta_bytes = kMaxDeltaBytes},
       .on_fault = [&metrics = door_.metrics()](
                       ReaderFault fault) { metrics.ReaderEnded(fault); }},
      weak_from_this(), door_.delivery());
  for (const std::unique_ptr<Request>& request : choices.requests) {
    request->arrival = arrival_;
    request->deadline = deadline_;
  }
  if (watch_ != nullptr) WatchChoices(message);
  {
    MutexLock lock(mutex_);
    if (cancelled_) return CancelledRefusal();
    writer_ = writer;
  }
  std::optional<Refusal> refusal = door_.Submit(choices.requests);
  if (!refusal) writer->Start();
  return refusal;
}

void ServedCall::WatchChoices(ReadMessage& message) const {
  const auto& requests = message.choices.requests;
  const Request& first = *requests.front();
  watch_->Read(first.id, first.tenant, message.model.name,
               static_cast<int>(first.prompt.size()));
  for (const std::unique_ptr<Request>& request : requests) {
    request->watch = watch_->Choice(request->choice);
  }
}

void ServedCall::Refuse(const Refusal& refusal) {
  if (watch_ != nullptr) watch_->Refused(refusal);
  door_.metrics().Refused(refusal.reason);
  EndRefused(refusal);
}

bool ServedCall::cancelled() const {
  MutexLock lock(mutex_);
  return cancelled_;
}

std::shared_ptr<ResponseWriter> ServedCall::writer() const {
  MutexLock lock(mutex_);
  return writer_;
}

void ServedCall::EndWrite(bool ok) { writer()->OnWriteDone(ok); }

void ServedCall::Cancel() {
  std::shared_ptr<ResponseWriter> writer;
  std::optional<Reading> reading;
  {
    MutexLock lock(mutex_);
    cancelled_ = true;
    writer = writer_;
    reading = reading_;
  }
  if (reading && reading->pool->Withdraw(reading->ticket)) {
    Refuse(CancelledRefusal());
    return;
  }
  if (writer == nullptr) return;
  // A protocol may cancel a call at its deadline as well. The loop knows the
  // deadline itself, and reports that it has passed.
  constexpr std::chrono::milliseconds kRounding(20);
  const TimePoint now = std::chrono::steady_clock::now();
  writer->OnCancel(/*overdue=*/now >= deadline_ - kRounding);
}

HeldOutput ServedCall::held() const {
  const std::shared_ptr<ResponseWriter> writer = this->writer();
  return writer != nullptr ? writer->held() : HeldOutput();
}

void ServedCall::EndForReader(ReaderFault fault) {
  const std::shared_ptr<ResponseWriter> writer = this->writer();
  if (writer != nullptr) writer->EndForReader(fault);
}

}  // namespace bole
