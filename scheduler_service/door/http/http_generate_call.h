// One generation call over HTTP.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_GENERATE_CALL_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_GENERATE_CALL_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/net/http/http_handler.h"
#include "proto/bole.pb.h"
#include "scheduler_service/door/front_door.h"
#include "scheduler_service/door/messages/served_call.h"
#include "scheduler_service/door/openai/openai_answer.h"
#include "scheduler_service/door/openai/openai_error.h"
#include "scheduler_service/door/openai/openai_request.h"
#include "scheduler_service/jobs/refusal.h"
#include "scheduler_service/jobs/request.h"

namespace bole {

// Answers with server-sent events, where each message's events are a chunk of
// their own, or with one body. A client that disconnects cancels the call; the
// connection of a client that reads too slowly is closed.
//
// Owned by OpenCalls until the exchange is over. Thread-safe.
class HttpGenerateCall final : public ServedCall, public HttpCall {
 public:
  // Reads `body` here or on a thread of the door, depending on its size, and
  // answers it as the request `id`, which is the suffix of the answer's own id.
  // REQUIRES: the caller is the exchange's handler, and returns the result.
  static std::shared_ptr<HttpGenerateCall> Start(
      FrontDoor& door, OpenAiApi api, RequestHead head, std::string id,
      std::string body, std::shared_ptr<HttpExchange> exchange);

  void OnWritten(bool ok) override { EndWrite(ok); }
  void OnGone() override { Cancel(); }
  void OnDone() override;

  HeldOutput held() const override;

  void Send(const v1::GenerateResponse& response) override;
  void SendLast(const v1::GenerateResponse& response) override;
  void End(const absl::Status& status, const v1::Usage& usage) override;
  bool Break(const absl::Status& why) override;

 private:
  HttpGenerateCall(FrontDoor& door, OpenAiApi api, std::string id,
                   std::shared_ptr<HttpExchange> exchange, TimePoint now);

  std::optional<Refusal> ReadAndAdmit(RequestHead head,
                                      const std::string& body);
  void Keep(const v1::GenerateResponse& response);
  void EndRefused(const Refusal& refusal) override;
  // Writes one or more events, after the response head if that was not written
  // yet.
  void Write(std::string events, bool last);

  const OpenAiApi api_;
  const std::string id_;
  const std::shared_ptr<HttpExchange> exchange_;
  // Used by the thread that admits the call, and afterwards by the sender.
  OpenAiRequest request_;
  std::unique_ptr<OpenAiAnswer> answer_;        // Null until the body is read.
  bool begun_ = false;                          // Whether events were sent.
  std::vector<v1::GenerateResponse> complete_;  // Used without streaming.
  // Bytes of `complete_`, or of what `answer_` keeps of the responses.
  std::atomic<size_t> kept_bytes_{0};

  Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_GENERATE_CALL_H_
