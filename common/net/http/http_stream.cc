#include "common/net/http/http_stream.h"

#include <type_traits>

#include "boost/asio/post.hpp"
#include "boost/asio/ssl/stream.hpp"
#include "boost/asio/write.hpp"

namespace bole {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;
using TlsSocket = boost::asio::ssl::stream<tcp::socket>;

template <typename Socket>
class SocketStream : public HttpStream {
 public:
  template <typename... Args>
  explicit SocketStream(Args&&... args)
      : socket_(std::forward<Args>(args)...) {}

  boost::asio::any_io_executor executor() override {
    return socket_.get_executor();
  }
  void Handshake(Done done) override {
    if constexpr (std::is_same_v<Socket, TlsSocket>) {
      socket_.async_handshake(
          boost::asio::ssl::stream_base::server,
          [done = std::move(done)](error_code error) { done(error, 0); });
    } else {
      boost::asio::post(socket_.get_executor(),
                        [done = std::move(done)] { done(error_code(), 0); });
    }
  }
  void ReadSome(boost::asio::mutable_buffer buffer, Done done) override {
    socket_.async_read_some(buffer, std::move(done));
  }
  void Write(const Parts& parts, Done done) override {
    boost::asio::async_write(socket_, parts, std::move(done));
  }
  void EndSending() override {
    error_code ignored;
    socket_.lowest_layer().shutdown(tcp::socket::shutdown_send, ignored);
  }
  void Close() override {
    error_code ignored;
    socket_.lowest_layer().close(ignored);
  }

 private:
  Socket socket_;
};

}  // namespace

std::unique_ptr<HttpStream> HttpStream::Create(tcp::socket socket,
                                               boost::asio::ssl::context* tls) {
  if (tls == nullptr) {
    return std::make_unique<SocketStream<tcp::socket>>(std::move(socket));
  }
  return std::make_unique<SocketStream<TlsSocket>>(std::move(socket), *tls);
}

}  // namespace bole
