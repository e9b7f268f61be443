// An HTTP server that says what it was asked, for tests of connections.
#ifndef BOLE_TESTS_COMMON_NET_HTTP_ECHO_SERVER_H_
#define BOLE_TESTS_COMMON_NET_HTTP_ECHO_SERVER_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/check.h"
#include "common/mutex.h"
#include "common/net/http/http_handler.h"
#include "common/net/http/http_message.h"
#include "common/net/http/http_server.h"

namespace bole::testing {

// Echoes method, path and body; a path that begins with /stream gets an answer
// that the test writes.
class Echo : public HttpHandler {
 public:
  struct Stream : HttpCall {
    void OnWritten(bool ok) override { ok ? ++written : ++failed; }
    void OnGone() override {
      ++gone;
      exchange->Write("", /*last=*/true);
    }
    void OnDone() override { ++done; }

    std::shared_ptr<HttpExchange> exchange;
    std::atomic<int> written{0};
    std::atomic<int> failed{0};
    std::atomic<int> gone{0};
    std::atomic<int> done{0};
  };

  std::optional<HttpAnswer> Refuse(const HttpRequest& head) override {
    if (head.path != "/none") return std::nullopt;
    return HttpError(404, "none", "there is none");
  }
  std::shared_ptr<HttpCall> Handle(
      HttpRequest request, std::shared_ptr<HttpExchange> exchange) override {
    if (request.path != "/stream") {
      exchange->Answer(
          {.headers = {{"X-Request-Id", request.id}},
           .body = request.method + " " + request.path + " " + request.body});
      return nullptr;
    }
    auto stream = std::make_shared<Stream>();
    stream->exchange = std::move(exchange);
    stream->exchange->Begin({.content_type = "text/event-stream"});
    stream->exchange->Write("data: first\n\n", /*last=*/false);
    MutexLock lock(mutex_);
    streams_.push_back(stream);
    return stream;
  }

  std::vector<std::shared_ptr<Stream>> streams() const {
    MutexLock lock(mutex_);
    return streams_;
  }
  // They hold exchanges, which hold connections.
  void Forget() {
    MutexLock lock(mutex_);
    streams_.clear();
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
};

// Waits at most 20 s.
template <typename Condition>
bool Eventually(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// A server of an echo.
class EchoServer {
 public:
  explicit EchoServer(const HttpServerOptions& options = {}) {
    auto started = HttpServer::Start(options, echo_);
    BOLE_CHECK(started.ok());
    server_ = *std::move(started);
  }
  ~EchoServer() {
    echo_.Forget();
    server_->Stop();
  }

  EchoServer(const EchoServer&) = delete;
  EchoServer& operator=(const EchoServer&) = delete;

  Echo& echo() { return echo_; }
  HttpServer& server() { return *server_; }
  int port() const { return server_->address().port; }

 private:
  Echo echo_;
  std::unique_ptr<HttpServer> server_;
};

inline std::string Get(const std::string& path,
                       const std::string& headers = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n";
}

inline bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

inline std::string StatusOf(const std::string& answer) {
  return answer.size() < 12 ? "none" : answer.substr(9, 3);
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_COMMON_NET_HTTP_ECHO_SERVER_H_
