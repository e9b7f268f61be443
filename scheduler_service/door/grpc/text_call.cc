#include "scheduler_service/door/grpc/text_call.h"

#include <utility>

#include "scheduler_service/door/grpc/refusal_status.h"

namespace bole {

grpc::ServerUnaryReactor* TextCall::Start(
    FrontDoor& door, std::function<absl::Status()> answer) {
  auto* call = new TextCall(door);
  call->ticket_ = door.long_texts().Post(
      [call, answer = std::move(answer)] { call->Run(answer); });
  if (!call->ticket_) call->Refuse(door.RefuseLongMessage(door.long_texts()));
  return call;
}

void TextCall::Run(const std::function<absl::Status()>& answer) {
  if (door_.draining()) {
    Refuse(DrainingRefusal());
  } else {
    Finish(ToUnaryStatus(answer()));
  }
}

void TextCall::OnCancel() {
  if (ticket_ && door_.long_texts().Withdraw(*ticket_)) {
    Refuse(CancelledRefusal());
  }
}

void TextCall::Refuse(const Refusal& refusal) {
  door_.metrics().TextRefused(refusal.reason);
  Finish(ToGrpcStatus(refusal));
}

}  // namespace bole
