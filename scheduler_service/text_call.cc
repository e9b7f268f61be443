#include "scheduler_service/text_call.h"

#include <utility>

#include "grpcpp/server_context.h"
#include "proto/grpc_status.h"

namespace bole {

grpc::ServerUnaryReactor* TextCall::Start(
    grpc::CallbackServerContext& context, TaskPool& pool, DoorMetrics& metrics,
    std::function<absl::Status()> answer) {
  auto* call = new TextCall(pool, metrics);
  call->ticket_ =
      pool.Post([call, answer = std::move(answer)] { call->End(answer()); });
  if (call->ticket_) return call;
  context.AddTrailingMetadata(kRetryAfterKey, kRetryAfterMs);
  call->End(FullError(RefusalReason::kLongMessages, pool.num_waiting(),
                      pool.max_waiting()));
  return call;
}

void TextCall::OnCancel() {
  if (!ticket_ || !pool_.Withdraw(*ticket_)) return;
  End(WithReason(absl::CancelledError("the client cancelled"),
                 RefusalReason::kCancelled));
}

void TextCall::End(const absl::Status& status) {
  if (const auto reason = ReasonOf(status)) metrics_.TextRefused(*reason);
  Finish(ToGrpcStatus(status));
}

}  // namespace bole
