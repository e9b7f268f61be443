#include "common/net/http/http_post.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>  // Asio 1.74 uses std::exchange and does not include it.

#include "absl/strings/str_cat.h"
#include "boost/asio/connect.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ssl/context.hpp"
#include "boost/asio/ssl/host_name_verification.hpp"
#include "boost/asio/ssl/stream.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/core/tcp_stream.hpp"
#include "boost/beast/http.hpp"
#include "common/status_macros.h"

namespace bole {
namespace {

namespace beast = boost::beast;
using boost::asio::ip::tcp;
using boost::system::error_code;

// Bound on the body of an answer, which nobody reads.
constexpr uint64_t kMaxAnswer = 1 << 20;

using TlsContext = boost::asio::ssl::context;
using TcpStream = beast::tcp_stream;
using TlsStream = boost::asio::ssl::stream<beast::tcp_stream>;

// One request and its answer, as a chain of asynchronous steps on an io_context
// that one thread runs.
template <typename Stream>
class Exchange {
 public:
  // `stream` is not connected yet and uses `context`; both must outlive this.
  Exchange(const HttpUrl& url, const std::string& body,
           boost::asio::io_context& context, Stream& stream)
      : url_(url),
        context_(context),
        resolver_(context),
        stream_(stream),
        request_(beast::http::verb::post, url.path, 11) {
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
    beast::get_lowest_layer(stream_).async_connect(
        found, [this](error_code error, const auto&) {
          if (Went("the connection", error)) Secure();
        });
  }

  void Secure() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      stream_.async_handshake(TlsStream::client, [this](error_code error) {
        if (Went("TLS", error)) Write();
      });
    } else {
      Write();
    }
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
  boost::asio::io_context& context_;
  tcp::resolver resolver_;
  Stream& stream_;
  beast::flat_buffer buffer_;
  beast::http::request<beast::http::string_body> request_;
  beast::http::response_parser<beast::http::string_body> parser_;
};

absl::Status LoadAuthorities(const std::string& ca_file, TlsContext& tls) {
  error_code error;
  if (ca_file.empty()) {
    tls.set_default_verify_paths(error);
  } else {
    tls.load_verify_file(ca_file, error);
  }
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the authorities in \"", ca_file, "\": ", error.message()));
}

absl::Status PostOverTls(const HttpUrl& url, const std::string& body,
                         std::chrono::milliseconds timeout,
                         const std::string& ca_file) {
  TlsContext tls(TlsContext::tls_client);
  tls.set_options(TlsContext::default_workarounds | TlsContext::no_tlsv1 |
                  TlsContext::no_tlsv1_1);
  BOLE_RETURN_IF_ERROR(LoadAuthorities(ca_file, tls));
  boost::asio::io_context context;
  TlsStream stream(context, tls);
  stream.set_verify_mode(boost::asio::ssl::verify_peer);
  stream.set_verify_callback(
      boost::asio::ssl::host_name_verification(url.host));
  SSL_set_tlsext_host_name(stream.native_handle(), url.host.c_str());
  return Exchange<TlsStream>(url, body, context, stream).Run(timeout);
}

}  // namespace

absl::Status PostJson(const HttpUrl& url, const std::string& body,
                      std::chrono::milliseconds timeout,
                      const std::string& ca_file) {
  if (url.tls) return PostOverTls(url, body, timeout, ca_file);
  boost::asio::io_context context;
  TcpStream stream(context);
  return Exchange<TcpStream>(url, body, context, stream).Run(timeout);
}

}  // namespace bole
