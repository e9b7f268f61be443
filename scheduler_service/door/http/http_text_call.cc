#include "scheduler_service/door/http/http_text_call.h"

#include <utility>

#include "scheduler_service/door/http/http_answers.h"
#include "scheduler_service/door/openai/openai_error.h"

namespace bole {

std::shared_ptr<HttpCall> HttpTextCall::Start(
    FrontDoor& door, std::string id, std::shared_ptr<HttpExchange> exchange,
    std::function<HttpAnswer()> answer) {
  std::shared_ptr<HttpTextCall> call(
      new HttpTextCall(door, std::move(id), std::move(exchange)));
  call->ticket_ = door.long_texts().Post(
      [call, answer = std::move(answer)] { call->Run(answer); });
  if (!call->ticket_) call->Refuse(door.RefuseLongMessage(door.long_texts()));
  return call;
}

HttpTextCall::HttpTextCall(FrontDoor& door, std::string id,
                           std::shared_ptr<HttpExchange> exchange)
    : door_(door), id_(std::move(id)), exchange_(std::move(exchange)) {}

void HttpTextCall::Run(const std::function<HttpAnswer()>& answer) {
  if (door_.draining()) {
    Refuse(DrainingRefusal());
  } else {
    exchange_->Answer(WithId(answer(), id_));
  }
}

void HttpTextCall::OnGone() {
  if (ticket_ && door_.long_texts().Withdraw(*ticket_)) {
    Refuse(CancelledRefusal());
  }
}

void HttpTextCall::Refuse(const Refusal& refusal) {
  door_.metrics().TextRefused(refusal.reason);
  exchange_->Answer(WithId(ErrorAnswer(ToOpenAiError(refusal)), id_));
}

}  // namespace bole
