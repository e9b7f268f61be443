// One HTTP connection.
#ifndef BOLE_COMMON_NET_HTTP_HTTP_CONNECTION_H_
#define BOLE_COMMON_NET_HTTP_HTTP_CONNECTION_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "common/net/http/http_stream.h"
// The streams come first because of what they include.
#include "boost/asio/io_context.hpp"
#include "boost/asio/steady_timer.hpp"
#include "common/net/http/http_handler.h"
#include "common/net/http/http_limits.h"
#include "common/net/http/request_reader.h"

namespace bole {

// What the connections of a server have in common.
struct HttpConnectionContext {
  HttpLimits limits;
  HttpHandler& handler;
  // Everything runs on this. Exchanges keep it alive too: the work that they
  // post may need it for a moment longer than the connection exists.
  std::shared_ptr<boost::asio::io_context> io;
  std::atomic<bool> draining{false};  // Answers close their connections.
  std::atomic<size_t> body_bytes{0};  // Used of limits.max_bodies_bytes.
};

// Reads requests and has them answered one after the other: those that arrive
// early wait in a buffer of bounded size, and when it is full, at the client.
// While an answer is in progress it keeps reading, so that it notices when the
// client leaves; the end of the client's data counts as leaving.
//
// Lives as long as an operation is in progress. Everything runs on the strand
// of its socket; Start() and Close() may be called from any thread.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  // `on_end` is called when it is destroyed.
  HttpConnection(std::unique_ptr<HttpStream> stream,
                 HttpConnectionContext& context, std::function<void()> on_end);
  ~HttpConnection();

  void Start();
  // Closes the connection at once, even in the middle of an answer.
  void Close();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  class Exchange;

  // What to do after bytes were written.
  enum class After { kNothing, kTellCall, kEndExchange };
  struct Output {
    std::string head;
    std::string body;
    std::string tail;
    After after;
  };

  void Read();
  void OnRead(size_t num_bytes, bool end);
  // Takes requests from what was read, while none is being answered.
  void Advance();
  // Returns whether there may be more to take.
  bool FeedReader();
  void OnHead();
  // Adds the body bytes that the reader holds to those of all connections.
  // Returns false if there are too many.
  bool CountBody();
  void ForgetBody();
  void Dispatch();
  void AwaitBytes();

  // The exchange's methods, on the strand.
  void Answer(HttpAnswer answer);
  void Begin(const HttpAnswer& head);
  void Write(std::string bytes, bool last);
  // Sends an answer of the connection's own, after which the connection ends.
  // What was read of the request is dropped.
  void Reject(HttpAnswer answer);

  void Send(Output output);
  void SendNext();
  void OnSent(bool ok);
  void EndExchange();
  void Linger();
  void CloseNow();
  bool closes() const;

  void SetTimer(TimePoint at);
  void OnTimer();

  const std::unique_ptr<HttpStream> stream_;
  HttpConnectionContext& context_;
  const HttpLimits& limits_;
  const std::function<void()> on_end_;
  boost::asio::steady_timer timer_;
  uint64_t timer_number_ = 0;

  RequestReader reader_;
  std::string input_;  // Bytes that were read and the reader has not taken.
  std::array<char, 8192> read_buffer_;
  bool reading_ = false;
  bool at_end_ = false;     // The client sends no more.
  bool had_head_ = false;   // OnHead() was called for the current request.
  size_t counted_ = 0;      // Bytes of its body in context_.body_bytes.
  TimePoint first_byte_{};  // When that request began.

  // The exchange.
  uint64_t exchange_number_ = 0;
  bool answering_ = false;
  bool answered_ = false;  // Its last bytes are queued.
  bool head_only_ = false;
  bool is_http_1_1_ = true;
  bool keep_alive_ = true;
  bool told_close_ = false;  // The head announced the close.
  std::string begun_;        // The head that goes before the first bytes.
  std::shared_ptr<HttpCall> call_;
  std::shared_ptr<HttpConnection> self_;  // Until the exchange has ended.

  std::deque<Output> outputs_;  // The first one is being written.
  bool lingering_ = false;
  bool closed_ = false;
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_HTTP_HTTP_CONNECTION_H_
