#include "common/net/http/http_stream.h"

#include "boost/asio/post.hpp"
#include "boost/asio/ssl/stream.hpp"
#include "boost/asio/write.hpp"

namespace bole {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;
using TlsSocket = boost::asio::ssl::stream<tcp::socket>;

using TlsContext = boost::asio::ssl::context;

// What the two kinds of streams have in common.
template <typename Socket>
class SocketStream : public HttpStream {
 public:
  boost::asio::any_io_executor executor() override {
    return socket_.get_executor();
  }
  void ReadSome(boost::asio::mutable_buffer buffer, Done done) override {
    socket_.async_read_some(buffer, std::move(done));
  }
  void Write(const Parts& parts, Done done) override {
    boost::asio::async_write(socket_, parts, std::move(done));
  }
  void Close() override {
    error_code ignored;
    socket_.lowest_layer().close(ignored);
  }

 protected:
  template <typename... Args>
  explicit SocketStream(Args&&... args)
      : socket_(std::forward<Args>(args)...) {}

  Socket socket_;
};

class ClearStream final : public SocketStream<tcp::socket> {
 public:
  explicit ClearStream(tcp::socket socket) : SocketStream(std::move(socket)) {}

  void Handshake(Done done) override {
    boost::asio::post(socket_.get_executor(),
                      [done = std::move(done)] { done(error_code(), 0); });
  }
  void EndSending(Done done) override {
    error_code error;
    socket_.shutdown(tcp::socket::shutdown_send, error);
    boost::asio::post(socket_.get_executor(),
                      [done = std::move(done), error] { done(error, 0); });
  }
};

class TlsStream final : public SocketStream<TlsSocket> {
 public:
  TlsStream(tcp::socket socket, std::shared_ptr<TlsContext> tls)
      : SocketStream(std::move(socket), *tls), tls_(std::move(tls)) {}

  void Handshake(Done done) override {
    socket_.async_handshake(
        boost::asio::ssl::stream_base::server,
        [done = std::move(done)](error_code error) { done(error, 0); });
  }
  void EndSending(Done done) override {
    socket_.async_shutdown(
        [done = std::move(done)](error_code error) { done(error, 0); });
  }

 private:
  const std::shared_ptr<TlsContext> tls_;
};

}  // namespace

std::unique_ptr<HttpStream> HttpStream::Create(
    tcp::socket socket, std::shared_ptr<TlsContext> tls) {
  if (tls == nullptr) return std::make_unique<ClearStream>(std::move(socket));
  return std::make_unique<TlsStream>(std::move(socket), std::move(tls));
}

}  // namespace bole
