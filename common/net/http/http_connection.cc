#include "common/net/http/http_connection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "boost/asio/post.hpp"

namespace bole {
namespace {

using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

HttpAnswer TooManyBodies(const HttpLimits& limits) {
  HttpAnswer answer =
      HttpError(503, "too_many_bodies",
                absl::StrCat("the bodies that are being read have more than ",
                             limits.max_bodies_bytes, " bytes together"));
  answer.headers.emplace_back("Retry-After", "1");
  return answer;
}

}  // namespace

// Does on the strand what is asked of it, while it is the connection's last.
// Knows the connection weakly: that must not end on a thread of somebody else,
// who might drop the exchange last, after the server is gone.
class HttpConnection::Exchange : public HttpExchange {
 public:
  Exchange(const std::shared_ptr<HttpConnection>& connection, uint64_t number)
      : io_(connection->context_.io),
        connection_(connection),
        number_(number) {}

  void Answer(HttpAnswer answer) override {
    Post([answer = std::move(answer)](HttpConnection& connection) mutable {
      connection.Answer(std::move(answer));
    });
  }
  void Begin(HttpAnswer head) override {
    Post([head = std::move(head)](HttpConnection& connection) {
      connection.Begin(head);
    });
  }
  void Write(std::string bytes, bool last) override {
    Post([bytes = std::move(bytes), last](HttpConnection& connection) mutable {
      connection.Write(std::move(bytes), last);
    });
  }
  void Break() override {
    // Not the bytes of the end, if those are on their way.
    Post([](HttpConnection& connection) { connection.CloseNow(); },
         /*even_answered=*/true);
  }

 private:
  template <typename Action>
  void Post(Action action, bool even_answered = false) {
    std::shared_ptr<HttpConnection> connection = connection_.lock();
    if (connection == nullptr) return;
    const auto strand = connection->stream_->executor();
    boost::asio::post(strand, [connection = std::move(connection),
                               number = number_, even_answered,
                               action = std::move(action)]() mutable {
      if (number != connection->exchange_number_ || !connection->answering_ ||
          (connection->answered_ && !even_answered)) {
        return;
      }
      action(*connection);
    });
  }

  const std::shared_ptr<boost::asio::io_context> io_;
  const std::weak_ptr<HttpConnection> connection_;
  const uint64_t number_;
};

HttpConnection::HttpConnection(std::unique_ptr<HttpStream> stream,
                               HttpConnectionContext& context,
                               std::function<void()> on_end)
    : stream_(std::move(stream)),
      context_(context),
      limits_(context.limits),
      on_end_(std::move(on_end)),
      timer_(stream_->executor()),
      reader_(context.limits) {}

HttpConnection::~HttpConnection() {
  ForgetBody();
  on_end_();
}

void HttpConnection::Start() {
  boost::asio::post(stream_->executor(), [self = shared_from_this()] {
    self->SetTimer(steady_clock::now() + self->limits_.handshake_time);
    self->stream_->Handshake([self](error_code error, size_t) {
      if (error) return self->CloseNow();
      self->Advance();
    });
  });
}

void HttpConnection::Close() {
  boost::asio::post(stream_->executor(),
                    [self = shared_from_this()] { self->CloseNow(); });
}

void HttpConnection::CloseNow() {
  if (closed_) return;
  closed_ = true;
  ++timer_number_;
  timer_.cancel();
  stream_->Close();
  if (answering_ && !answered_ && call_ != nullptr) call_->OnGone();
}

bool HttpConnection::closes() const {
  return !keep_alive_ || context_.draining.load();
}

void HttpConnection::Read() {
  if (reading_ || closed_ || at_end_) return;
  if (input_.size() >= reader_.max_lookahead()) return;
  reading_ = true;
  stream_->ReadSome(boost::asio::buffer(read_buffer_),
                    [self = shared_from_this()](error_code error, size_t size) {
                      self->reading_ = false;
                      self->OnRead(size, /*end=*/error.failed());
                    });
}

void HttpConnection::OnRead(size_t num_bytes, bool end) {
  if (closed_) return;
  if (lingering_) return end ? CloseNow() : Read();
  input_.append(read_buffer_.data(), num_bytes);
  if (end) {
    at_end_ = true;
    // A client that waits for a text is gone. One whose answer is on its way
    // may have closed its half.
    if (answering_ && !answered_ && call_ != nullptr) return CloseNow();
  }
  if (answering_) return Read();
  Advance();
}

void HttpConnection::Advance() {
  while (!answering_ && !closed_ && !lingering_ && FeedReader()) continue;
  if (closed_) return;
  if (!answering_ && !lingering_ && at_end_) return CloseNow();
  Read();
}

bool HttpConnection::FeedReader() {
  const auto before = reader_.state();
  const size_t taken = reader_.Feed(input_);
  input_.erase(0, taken);
  if (taken == 0 && input_.size() >= reader_.max_lookahead() &&
      reader_.state() != RequestReader::State::kError) {
    reader_.FailAsTooLong();
  }
  if (before == RequestReader::State::kStart) first_byte_ = steady_clock::now();
  switch (reader_.state()) {
    case RequestReader::State::kStart:
    case RequestReader::State::kHead:
      AwaitBytes();
      return false;
    case RequestReader::State::kBody:
      if (std::exchange(had_head_, true)) {
        if (!CountBody()) {
          Reject(TooManyBodies(limits_));
          return false;
        }
        AwaitBytes();
        return taken > 0 && !input_.empty();
      }
      OnHead();
      return true;
    case RequestReader::State::kRequest:
      if (!std::exchange(had_head_, true)) OnHead();
      if (!answering_) Dispatch();
      return false;
    case RequestReader::State::kError:
      Reject(reader_.error());
      return false;
  }
  return false;
}

void HttpConnection::AwaitBytes() {
  switch (reader_.state()) {
    case RequestReader::State::kStart:
      return SetTimer(steady_clock::now() + limits_.idle_time);
    case RequestReader::State::kHead:
      return SetTimer(first_byte_ + limits_.header_time);
    default:
      return SetTimer(first_byte_ + limits_.request_time);
  }
}

void HttpConnection::OnHead() {
  const HttpRequest& head = reader_.request();
  is_http_1_1_ = head.is_http_1_1;
  head_only_ = head.method == "HEAD";
  keep_alive_ = head.keep_alive;
  std::optional<HttpAnswer> refusal = context_.handler.Refuse(head);
  if (refusal) {
    // What follows of the request is not read.
    if (reader_.state() == RequestReader::State::kBody) {
      return Reject(*std::move(refusal));
    }
    answering_ = true;
    ++exchange_number_;
    return Answer(*std::move(refusal));
  }
  if (head.expects_continue && is_http_1_1_ &&
      reader_.state() == RequestReader::State::kBody && input_.empty()) {
    Send({.head = "HTTP/1.1 100 Continue\r\n\r\n",
          .body = {},
          .tail = {},
          .after = After::kNothing});
  }
}

bool HttpConnection::CountBody() {
  const size_t held = reader_.body_bytes();
  const size_t counts = held - std::min(held, limits_.uncounted_body_bytes);
  const size_t more = counts - std::exchange(counted_, counts);
  return more == 0 ||
         context_.body_bytes.fetch_add(more) + more <= limits_.max_bodies_bytes;
}

void HttpConnection::ForgetBody() {
  context_.body_bytes -= std::exchange(counted_, 0);
}

void HttpConnection::Dispatch() {
  ForgetBody();
  ++timer_number_;
  timer_.cancel();
  answering_ = true;
  ++exchange_number_;
  self_ = shared_from_this();
  call_ = context_.handler.Handle(
      std::move(reader_.request()),
      std::make_shared<Exchange>(self_, exchange_number_));
}

void HttpConnection::Reject(HttpAnswer answer) {
  reader_.Restart();
  ForgetBody();
  keep_alive_ = false;
  answering_ = true;
  ++exchange_number_;
  Answer(std::move(answer));
}

void HttpConnection::Answer(HttpAnswer answer) {
  answered_ = true;
  told_close_ = closes();
  std::string head = EncodeHead(answer, Framing::kLength, told_close_);
  if (head_only_) answer.body.clear();
  Send({.head = std::move(head),
        .body = std::move(answer.body),
        .tail = {},
        .after = After::kEndExchange});
}

void HttpConnection::Begin(const HttpAnswer& head) {
  if (!is_http_1_1_) keep_alive_ = false;
  told_close_ = closes();
  begun_ = EncodeHead(head, is_http_1_1_ ? Framing::kChunked : Framing::kClose,
                      told_close_);
}

void HttpConnection::Write(std::string bytes, bool last) {
  answered_ = last;
  Output output{.head = std::exchange(begun_, {}),
                .body = std::move(bytes),
                .tail = {},
                .after = last ? After::kEndExchange : After::kTellCall};
  if (is_http_1_1_) {
    if (!output.body.empty()) {
      output.head += EncodeChunkHead(output.body.size());
      output.tail = "\r\n";
    }
    if (last) output.tail += "0\r\n\r\n";
  }
  Send(std::move(output));
}

void HttpConnection::Send(Output output) {
  if (output.after == After::kEndExchange) {
    const size_t bytes = output.head.size() + output.body.size();
    SetTimer(steady_clock::now() + limits_.write_time +
             milliseconds(1000 * bytes / limits_.slowest_bytes_per_second));
  }
  outputs_.push_back(std::move(output));
  if (outputs_.size() == 1) SendNext();
}

void HttpConnection::SendNext() {
  if (closed_) {
    // The writes of a closed connection fail.
    return boost::asio::post(stream_->executor(), [self = shared_from_this()] {
      self->OnSent(/*ok=*/false);
    });
  }
  const Output& output = outputs_.front();
  stream_->Write(
      {boost::asio::buffer(output.head), boost::asio::buffer(output.body),
       boost::asio::buffer(output.tail)},
      [self = shared_from_this()](error_code error, size_t) {
        self->OnSent(!error.failed());
      });
}

void HttpConnection::OnSent(bool ok) {
  const After after = outputs_.front().after;
  outputs_.pop_front();
  if (!ok) CloseNow();
  if (!outputs_.empty()) SendNext();
  if (after == After::kTellCall && call_ != nullptr) {
    call_->OnWritten(ok && !closed_);
  } else if (after == After::kEndExchange) {
    EndExchange();
  }
}

void HttpConnection::EndExchange() {
  const std::shared_ptr<HttpConnection> self = std::exchange(self_, nullptr);
  answering_ = false;
  answered_ = false;
  begun_.clear();
  const std::shared_ptr<HttpCall> call = std::exchange(call_, nullptr);
  if (call != nullptr) call->OnDone();
  if (closed_) return;
  if (told_close_) return Linger();
  reader_.Restart();
  had_head_ = false;
  head_only_ = false;
  Advance();
}

void HttpConnection::Linger() {
  if (at_end_) return CloseNow();
  lingering_ = true;
  input_.clear();
  stream_->EndSending([self = shared_from_this()](error_code, size_t) {});
  SetTimer(steady_clock::now() + limits_.linger_time);
  Read();
}

void HttpConnection::SetTimer(TimePoint at) {
  if (closed_) return;
  timer_.expires_at(at);
  timer_.async_wait(
      [self = shared_from_this(), number = ++timer_number_](error_code error) {
        if (!error && number == self->timer_number_) self->OnTimer();
      });
}

void HttpConnection::OnTimer() {
  const auto state = reader_.state();
  if (answering_ || lingering_ || state == RequestReader::State::kStart) {
    return CloseNow();
  }
  Reject(HttpError(408, "request_timeout",
                   state == RequestReader::State::kHead
                       ? "the header did not come in time"
                       : "the body did not come in time"));
}

}  // namespace bole
