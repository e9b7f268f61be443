// What answers the requests of HTTP connections.
#ifndef BOLE_COMMON_NET_HTTP_HTTP_HANDLER_H_
#define BOLE_COMMON_NET_HTTP_HTTP_HANDLER_H_

#include <memory>
#include <optional>
#include <string>

#include "common/net/http/http_message.h"

namespace bole {

// Takes the answer to one request: either Answer(), or Begin() and then
// Write()s, the last of which sets `last`. After that, and after Break(), all
// calls do nothing. Calls return at once. Thread-safe.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual void Answer(HttpAnswer answer) = 0;
  // The head of an answer whose body is not known yet. It is written with the
  // first bytes of the body.
  virtual void Begin(HttpAnswer head) = 0;
  // HttpCall::OnWritten() follows, unless this is the last write. REQUIRES: no
  // other write is in progress.
  virtual void Write(std::string bytes, bool last) = 0;
  // Closes the connection, so that a write in progress fails.
  virtual void Break() = 0;
};

// Is notified about its exchange, on one thread at a time.
class HttpCall {
 public:
  virtual ~HttpCall() = default;

  // The write has ended; it failed unless `ok`. All writes fail once the client
  // is gone.
  virtual void OnWritten(bool ok) = 0;
  // The client is gone. The call still ends its exchange.
  virtual void OnGone() = 0;
  // The answer was sent or lost: the exchange is over.
  virtual void OnDone() = 0;
};

// Thread-safe.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  // Called before the body is read. Returns the answer to a refused request.
  virtual std::optional<HttpAnswer> Refuse(const HttpRequest& head) = 0;
  // Answers, now or later. The result, if it is not null, is notified about the
  // exchange.
  virtual std::shared_ptr<HttpCall> Handle(
      HttpRequest request, std::shared_ptr<HttpExchange> exchange) = 0;
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_HTTP_HTTP_HANDLER_H_
