#include "common/net/http/http_post.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "boost/asio/connect.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/core/tcp_stream.hpp"
#include "boost/beast/http.hpp"

namespace bole {
namespace {

namespace beast = boost::beast;
using boost::asio::ip::tcp;
using boost::system::error_code;

// Of an answer, whose text nobody reads.
constexpr uint64_t kMaxAnswer = 1 << 20;

// One exchange, step by step, on an io_context that one thread runs.
class Exchange {
 public:
  Exchange(const HttpUrl& url, const std::string& body)
      : url_(url), request_(beast::http::verb::post, url.path, 11) {
    request_.set(beast::http::field::host, Authority(url));
    request_.set(beast::http::field::content_type, "application/json");
    request_.keep_alive(false);
    request_.body() = body;
    request_.prepare_payload();
    parser_.body_limit(kMaxAnswer);
  }

  absl::Status Run(std::chrono::milliseconds timeout) {
    resolver_.async_resolve(
        url_.host, std::to_string(url_.port),
        [this](error_code error, const tcp::resolver::results_type& found) {
          if (Went("the look-up", error)) Connect(found);
        });
    context_.run_for(timeout);
    if (result_) return *result_;
    return absl::UnavailableError(
        absl::StrCat("no answer within ", timeout.count(), " ms"));
  }

 private:
  void Connect(const tcp::resolver::results_type& found) {
    stream_.async_connect(found, [this](error_code error, const auto&) {
      if (Went("the connection", error)) Write();
    });
  }

  void Write() {
    beast::http::async_write(stream_, request_,
                             [this](error_code error, size_t) {
                               if (Went("sending", error)) Read();
                             });
  }

  void Read() {
    beast::http::async_read(
        stream_, buffer_, parser_, [this](error_code error, size_t) {
          if (!Went("the answer", error)) return;
          const unsigned status = parser_.get().result_int();
          result_ = status >= 200 && status < 300
                        ? absl::OkStatus()
                        : absl::UnavailableError(
                              absl::StrCat("HTTP status ", status));
        });
  }

  bool Went(const char* what, error_code error) {
    if (error) {
      result_ = absl::UnavailableError(
          absl::StrCat(what, " failed: ", error.message()));
    }
    return !error;
  }

  const HttpUrl url_;
  std::optional<absl::Status> result_;
  boost::asio::io_context context_;
  tcp::resolver resolver_{context_};
  beast::tcp_stream stream_{context_};
  beast::flat_buffer buffer_;
  beast::http::request<beast::http::string_body> request_;
  beast::http::response_parser<beast::http::string_body> parser_;
};

}  // namespace

absl::Status PostJson(const HttpUrl& url, const std::string& body,
                      std::chrono::milliseconds timeout) {
  return Exchange(url, body).Run(timeout);
}

}  // namespace bole
