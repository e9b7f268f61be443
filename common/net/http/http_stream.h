// A connection's bytes, in the clear or through TLS.
#ifndef BOLE_COMMON_NET_HTTP_HTTP_STREAM_H_
#define BOLE_COMMON_NET_HTTP_HTTP_STREAM_H_

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>  // Asio 1.74 uses std::exchange and does not include it.

#include "boost/asio/any_io_executor.hpp"
#include "boost/asio/buffer.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ssl/context.hpp"
#include "boost/system/error_code.hpp"

namespace bole {

// At most one read and one write are under way at a time. What is done is told
// on the socket's executor, which is to be a strand; methods are called there.
class HttpStream {
 public:
  using Done = std::function<void(boost::system::error_code, size_t)>;
  using Parts = std::array<boost::asio::const_buffer, 3>;

  // Through TLS if there is a context.
  static std::unique_ptr<HttpStream> Create(
      boost::asio::ip::tcp::socket socket,
      std::shared_ptr<boost::asio::ssl::context> tls);
  virtual ~HttpStream() = default;

  virtual boost::asio::any_io_executor executor() = 0;
  // Comes before everything else; the size is 0.
  virtual void Handshake(Done done) = 0;
  virtual void ReadSome(boost::asio::mutable_buffer buffer, Done done) = 0;
  // All of the parts. They outlive the write.
  virtual void Write(const Parts& parts, Done done) = 0;
  // Tells the peer that nothing more is sent; no write may follow. The stream
  // must outlive this too: TLS is done with it once the peer has answered.
  virtual void EndSending(Done done) = 0;
  // What is under way fails.
  virtual void Close() = 0;
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_HTTP_HTTP_STREAM_H_
