// A call whose answer takes long to compute.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_TEXT_CALL_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_TEXT_CALL_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/net/http/http_handler.h"
#include "common/net/http/http_message.h"
#include "scheduler_service/door/front_door.h"
#include "scheduler_service/door/task_pool.h"
#include "scheduler_service/jobs/refusal.h"

namespace bole {

// Waits for its turn among the long texts of the door. If the client leaves
// before that, the call ends at once and is not answered.
class HttpTextCall final : public HttpCall {
 public:
  // `answer` runs on a thread of the door, unless the door drains before its
  // turn. If too many calls wait there, this one is refused. All answers have
  // X-Request-Id `id`. The door must outlive the call.
  static std::shared_ptr<HttpCall> Start(FrontDoor& door, std::string id,
                                         std::shared_ptr<HttpExchange> exchange,
                                         std::function<HttpAnswer()> answer);

  void OnWritten(bool) override {}
  void OnGone() override;
  void OnDone() override {}

 private:
  HttpTextCall(FrontDoor& door, std::string id,
               std::shared_ptr<HttpExchange> exchange);

  void Run(const std::function<HttpAnswer()>& answer);
  // Counts the refusal, and answers it.
  void Refuse(const Refusal& refusal);

  FrontDoor& door_;
  const std::string id_;
  const std::shared_ptr<HttpExchange> exchange_;
  std::optional<TaskPool::Ticket> ticket_;  // The connection's, as OnGone() is.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_TEXT_CALL_H_
