// A client's connection, in the clear or through TLS.
#ifndef BOLE_CLIENTS_BENCH_CLIENT_STREAM_H_
#define BOLE_CLIENTS_BENCH_CLIENT_STREAM_H_

#include <memory>
#include <string>
#include <utility>  // Asio 1.74 uses std::exchange and does not include it.

#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ssl/context.hpp"
#include "boost/asio/ssl/host_name_verification.hpp"
#include "boost/asio/ssl/stream.hpp"
#include "boost/system/error_code.hpp"

namespace bole::bench {

// A stream that Asio and Beast read from and write to. Handlers run on the
// context's thread, which is the only one that uses it.
class ClientStream {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using executor_type = Socket::executor_type;

  // Uses TLS if `tls` is not null. It must outlive the stream, and the server's
  // certificate must then be issued for `host`.
  ClientStream(boost::asio::io_context& io, boost::asio::ssl::context* tls,
               const std::string& host)
      : socket_(io) {
    if (tls == nullptr) return;
    tls_ = std::make_unique<Tls>(socket_, *tls);
    tls_->set_verify_mode(boost::asio::ssl::verify_peer);
    tls_->set_verify_callback(boost::asio::ssl::host_name_verification(host));
    SSL_set_tlsext_host_name(tls_->native_handle(), host.c_str());
  }

  ClientStream(const ClientStream&) = delete;
  ClientStream& operator=(const ClientStream&) = delete;

  Socket& socket() { return socket_; }
  executor_type get_executor() { return socket_.get_executor(); }

  // Call this after the socket has connected. Without TLS it is done at once.
  template <typename Handler>
  void Handshake(Handler handler) {
    if (tls_ == nullptr) return handler(boost::system::error_code());
    tls_->async_handshake(boost::asio::ssl::stream_base::client,
                          std::move(handler));
  }

  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_ == nullptr) {
      socket_.async_read_some(buffers, std::forward<Handler>(handler));
    } else {
      tls_->async_read_some(buffers, std::forward<Handler>(handler));
    }
  }

  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_ == nullptr) {
      socket_.async_write_some(buffers, std::forward<Handler>(handler));
    } else {
      tls_->async_write_some(buffers, std::forward<Handler>(handler));
    }
  }

  // Operations in progress fail.
  void Close() {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }

 private:
  using Tls = boost::asio::ssl::stream<Socket&>;

  Socket socket_;
  std::unique_ptr<Tls> tls_;  // Null: in the clear.
};

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_CLIENT_STREAM_H_
