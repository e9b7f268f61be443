#include "clients/bench/openai_call.h"

#include <chrono>
#include <cstddef>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/connect.hpp"
#include "boost/asio/post.hpp"
#include "boost/asio/write.hpp"
#include "boost/beast/http/error.hpp"
#include "clients/bench/openai_failure.h"

namespace bole::bench {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

constexpr size_t kMaxHeaderBytes = 64 << 10;
constexpr size_t kMaxRefusalBytes = 1 << 20;
constexpr size_t kReadBytes = 8 << 10;

std::string RequestText(const OpenAiPeer& peer, const CompletionBody& body) {
  return absl::StrCat(
      "POST ", peer.path, body.path, " HTTP/1.1\r\nHost: ", peer.authority,
      "\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n",
      peer.authorization.empty() ? "" : "Authorization: ", peer.authorization,
      peer.authorization.empty() ? "" : "\r\n",
      "Content-Length: ", body.json.size(), "\r\n\r\n", body.json);
}

}  // namespace

OpenAiCall::OpenAiCall(OpenAiPeer& peer, const CompletionBody& body,
                       CallHandlers handlers)
    : peer_(peer),
      request_(RequestText(peer, body)),
      handlers_(std::move(handlers)),
      deadline_(peer.io) {}

void OpenAiCall::Start(std::optional<double> timeout_seconds) {
  const auto start = std::chrono::steady_clock::now();
  boost::asio::post(
      peer_.io, [self = shared_from_this(), timeout_seconds, start] {
        if (self->ended_) return;
        if (timeout_seconds) {
          self->deadline_.expires_at(
              start + std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::duration<double>(*timeout_seconds)));
          self->deadline_.async_wait([self](error_code error) {
            if (error || self->ended_) return;
            self->End({.status = absl::DeadlineExceededError(
                           "the time of the call is up")});
          });
        }
        self->Begin(/*may_reuse=*/true);
      });
}

void OpenAiCall::Cancel() {
  boost::asio::post(peer_.io, [self = shared_from_this()] {
    if (self->ended_) return;
    self->End({.status = absl::CancelledError("the caller cancelled")});
  });
}

void OpenAiCall::Begin(bool may_reuse) {
  parser_.emplace();
  parser_->header_limit(kMaxHeaderBytes);
  parser_->body_limit(boost::none);
  parser_->eager(true);
  reused_ = may_reuse && !peer_.idle.empty();
  if (reused_) {
    stream_ = std::move(peer_.idle.back());
    peer_.idle.pop_back();
    return Write();
  }
  stream_ = std::make_unique<ClientStream>(
      peer_.io, peer_.tls ? &*peer_.tls : nullptr, peer_.host);
  Connect();
}

void OpenAiCall::Connect() {
  const auto shaken = [self = shared_from_this()](error_code error) {
    if (self->ended_) return;
    if (!error) return self->Write();
    self->End(
        {.status = absl::UnavailableError(absl::StrCat(
             "no TLS with ", self->peer_.authority, ": ", error.message()))});
  };
  boost::asio::async_connect(
      stream_->socket(), peer_.endpoints,
      [self = shared_from_this(), shaken](
          error_code error, const boost::asio::ip::tcp::endpoint&) {
        if (self->ended_) return;
        if (error) {
          return self->End({.status = absl::UnavailableError(absl::StrCat(
                                "cannot connect to ", self->peer_.authority,
                                ": ", error.message()))});
        }
        error_code ignored;
        self->stream_->socket().set_option(boost::asio::ip::tcp::no_delay(true),
                                           ignored);
        self->stream_->Handshake(shaken);
      });
}

void OpenAiCall::Write() {
  boost::asio::async_write(
      *stream_, boost::asio::buffer(request_),
      [self = shared_from_this()](error_code error, size_t) {
        if (self->ended_) return;
        if (error) return self->OnBroken(error);
        self->Read();
      });
}

void OpenAiCall::Read() {
  // Not by http::async_read_some(), which keeps a body that it has parsed until
  // the next bytes come, where these end with a chunk.
  stream_->async_read_some(
      buffer_.prepare(kReadBytes),
      [self = shared_from_this()](error_code error, size_t num_bytes) {
        self->OnRead(error, num_bytes);
      });
}

void OpenAiCall::OnRead(error_code error, size_t num_bytes) {
  if (ended_) return;
  buffer_.commit(num_bytes);
  error_code wrong;
  while (!wrong && buffer_.size() > 0 && !parser_->is_done()) {
    buffer_.consume(parser_->put(buffer_.data(), wrong));
  }
  if (wrong == http::error::need_more) wrong = {};
  if (error == boost::asio::error::eof && parser_->is_header_done()) {
    // A body without a length ends with its connection.
    error_code is_cut;
    parser_->put_eof(is_cut);
  }
  if (parser_->is_header_done()) {
    answered_ = true;
    TakeBody();
    if (ended_) return;
  }
  if (wrong) return OnBroken(wrong);
  if (parser_->is_done()) return OnMessageEnd();
  if (error) return OnBroken(error);
  Read();
}

void OpenAiCall::TakeBody() {
  std::string& body = parser_->get().body();
  if (parser_->get().result_int() == 200) {
    std::optional<CallEnd> failed = reader_.Feed(body, handlers_.on_response);
    if (failed) return End(*std::move(failed));
  } else {
    refusal_.append(body, 0, kMaxRefusalBytes - refusal_.size());
  }
  body.clear();
}

void OpenAiCall::OnBroken(error_code error) {
  // A server closes connections that have waited for long, and it may have done
  // so just now.
  if (reused_ && !answered_ && buffer_.size() == 0) {
    return Begin(/*may_reuse=*/false);
  }
  End({.status = absl::UnavailableError(
           absl::StrCat("the connection to ", peer_.authority,
                        " broke: ", error.message()))});
}

CallEnd OpenAiCall::EndOfRefusal() const {
  const auto& answer = parser_->get();
  CallEnd end =
      FailureOfAnswer(static_cast<int>(answer.result_int()), refusal_);
  const auto retry_after = answer["Retry-After"];
  double seconds = 0;
  if (absl::SimpleAtod(
          absl::string_view(retry_after.data(), retry_after.size()),
          &seconds) &&
      seconds >= 0) {
    end.retry_after_seconds = seconds;
  }
  return end;
}

void OpenAiCall::OnMessageEnd() {
  CallEnd end =
      parser_->get().result_int() == 200 ? reader_.End() : EndOfRefusal();
  if (parser_->keep_alive() && buffer_.size() == 0) {
    peer_.idle.push_back(std::move(stream_));
  }
  End(std::move(end));
}

void OpenAiCall::End(CallEnd end) {
  ended_ = true;
  deadline_.cancel();
  // Not destroyed: what is under way still refers to it.
  if (stream_ != nullptr) stream_->Close();
  const CallHandlers handlers = std::exchange(handlers_, {});
  handlers.on_end(std::move(end));
}

}  // namespace bole::bench
