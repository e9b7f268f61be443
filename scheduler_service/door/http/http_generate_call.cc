#include "scheduler_service/door/http/http_generate_call.h"

#include <chrono>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/net/http/http_message.h"
#include "scheduler_service/door/http/http_answers.h"

namespace bole {
namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

const char* IdPrefix(OpenAiApi api) {
  switch (api) {
    case OpenAiApi::kChat:
      return "chatcmpl-";
    case OpenAiApi::kCompletions:
      return "cmpl-";
    case OpenAiApi::kResponses:
      return "resp_";
  }
  return "";
}

}  // namespace

std::shared_ptr<HttpGenerateCall> HttpGenerateCall::Start(
    FrontDoor& door, OpenAiApi api, RequestHead head, std::string id,
    std::string body, std::shared_ptr<HttpExchange> exchange) {
  std::shared_ptr<HttpGenerateCall> call(new HttpGenerateCall(
      door, api, std::move(id), std::move(exchange), steady_clock::now()));
  door.open_calls().Add(call);
  head.bytes = body.size();
  call->Watch(head, call->id_);
  call->AdmitBySize(head.bytes,
                    [raw = call.get(), head, body = std::move(body)] {
                      return raw->ReadAndAdmit(head, body);
                    });
  return call;
}

HttpGenerateCall::HttpGenerateCall(FrontDoor& door, OpenAiApi api,
                                   std::string id,
                                   std::shared_ptr<HttpExchange> exchange,
                                   TimePoint now)
    : ServedCall(door, now, TimePoint::max()),
      api_(api),
      id_(std::move(id)),
      exchange_(std::move(exchange)) {}

std::optional<Refusal> HttpGenerateCall::ReadAndAdmit(RequestHead head,
                                                      const std::string& body) {
  absl::StatusOr<OpenAiRequest> request = ReadOpenAiRequest(api_, body);
  if (!request.ok()) return RefusalOf(request.status());
  request_ = *std::move(request);
  request_.message.set_request_id(id_);
  head.model = request_.message.model();
  answer_ = std::make_unique<OpenAiAnswer>(
      request_, absl::StrCat(IdPrefix(api_), id_),
      system_clock::to_time_t(system_clock::now()));
  return Admit(head, request_.message);
}

void HttpGenerateCall::OnDone() {
  {
    MutexLock lock(mutex_);
    done_ = true;
  }
  const std::shared_ptr<WatchedCall> self = door().open_calls().Remove(*this);
}

HeldOutput HttpGenerateCall::held() const {
  HeldOutput held = ServedCall::held();
  held.kept += kept_bytes_.load();
  return held;
}

void HttpGenerateCall::Write(std::string events, bool last) {
  if (!std::exchange(begun_, true)) {
    // X-Accel-Buffering is for proxies that would wait for more.
    exchange_->Begin(WithId({.content_type = "text/event-stream",
                             .headers = {{"Cache-Control", "no-cache"},
                                         {"X-Accel-Buffering", "no"}}},
                            id_));
  }
  exchange_->Write(std::move(events), last);
}

void HttpGenerateCall::Keep(const v1::GenerateResponse& response) {
  if (!request_.stream) complete_.push_back(response);
  if (!request_.stream || api_ == OpenAiApi::kResponses) {
    kept_bytes_ += response.SpaceUsedLong();
  }
}

void HttpGenerateCall::Send(const v1::GenerateResponse& response) {
  Keep(response);
  if (request_.stream) {
    std::string events;
    answer_->AppendEvents(response, events);
    if (!events.empty()) return Write(std::move(events), /*last=*/false);
  }
  // Nothing is written: tokens whose text is not known yet have no event, and
  // an answer that is not streamed is written when its last choice is complete.
  door().delivery().Post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      static_cast<HttpGenerateCall&>(*self).EndWrite(true);
    }
  });
}

void HttpGenerateCall::SendLast(const v1::GenerateResponse& response) {
  Keep(response);
  if (request_.stream) {
    std::string events;
    answer_->AppendEvents(response, events);
    answer_->AppendEnd(events);
    return Write(std::move(events), /*last=*/true);
  }
  for (const v1::GenerateResponse& complete : complete_) {
    answer_->Add(complete);
  }
  exchange_->Answer(WithId({.body = answer_->Whole()}, id_));
}

void HttpGenerateCall::End(const absl::Status& status, const v1::Usage&) {
  const OpenAiError error = ToOpenAiError(status);
  if (!begun_) return exchange_->Answer(WithId(ErrorAnswer(error), id_));
  std::string events;
  answer_->AppendError(error, events);
  Write(std::move(events), /*last=*/true);
}

void HttpGenerateCall::EndRefused(const Refusal& refusal) {
  exchange_->Answer(WithId(ErrorAnswer(ToOpenAiError(refusal, api_)), id_));
}

bool HttpGenerateCall::Break(const absl::Status&) {
  MutexLock lock(mutex_);
  if (done_) return false;
  exchange_->Break();
  return true;
}

}  // namespace bole
