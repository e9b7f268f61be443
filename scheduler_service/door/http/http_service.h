// The answers of the HTTP door.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_SERVICE_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_SERVICE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/net/http/http_handler.h"
#include "common/net/http/http_message.h"
#include "prometheus/collectable.h"
#include "scheduler_service/door/asked_models.h"
#include "scheduler_service/door/front_door.h"
#include "scheduler_service/door/http/http_router.h"
#include "scheduler_service/door/openai/openai_request.h"
#include "scheduler_service/scheduler_loop.h"

namespace bole {

// Answers the routes of http_router.h. Every answer has an X-Request-Id: that
// of the request if it has 1 to 128 visible characters, or else a generated
// one.
//
// Thread-safe. Exchanges must have ended before it is destroyed.
class HttpService final : public HttpHandler {
 public:
  // The references must outlive the service.
  HttpService(FrontDoor& door, const SchedulerLoop& loop,
              prometheus::Collectable& metrics)
      : door_(door),
        loop_(loop),
        metrics_(metrics),
        started_unix_seconds_(std::chrono::system_clock::to_time_t(
            std::chrono::system_clock::now())) {}

  std::optional<HttpAnswer> Refuse(const HttpRequest& head) override;
  std::shared_ptr<HttpCall> Handle(
      HttpRequest request, std::shared_ptr<HttpExchange> exchange) override;

 private:
  // Makes the answer for a body whose text may be long.
  using TextAnswer = HttpAnswer (*)(const AskedModels&, std::string_view body);

  std::shared_ptr<HttpCall> Generate(OpenAiApi api, HttpRequest request,
                                     std::string id,
                                     std::shared_ptr<HttpExchange> exchange);
  std::shared_ptr<HttpCall> AnswerText(TextAnswer answer, std::string body,
                                       std::string id,
                                       std::shared_ptr<HttpExchange> exchange);
  // The answer of a route that can be answered at once.
  HttpAnswer AnswerTo(const HttpRoute& route, const std::string& path) const;
  HttpAnswer Ready() const;

  FrontDoor& door_;
  const SchedulerLoop& loop_;
  prometheus::Collectable& metrics_;
  const int64_t started_unix_seconds_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_SERVICE_H_
