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

// At most one read and one write may be in progress at a time. Completion is
// reported on the socket's executor, which must be a strand; methods must be
// called there too.
class HttpStream {
 public:
  using Done = std::function<void(boost::system::error_code, size_t)>;
  using Parts = std::array<boost::asio::const_buffer, 3>;

  // Uses TLS if `tls` is not null.
  static std::unique_ptr<HttpStream> Create(
      boost::asio::ip::tcp::socket socket,
      std::shared_ptr<boost::asio::ssl::context> tls);
  virtual ~HttpStream() = default;

  virtual boost::asio::any_io_executor executor() = 0;
  // Must come before everything else. The size is 0.
  virtual void Handshake(Done done) = 0;
  virtual void ReadSome(boost::asio::mutable_buffer buffer, Done done) = 0;
  // Writes all parts, which must outlive the write.
  virtual void Write(const Parts& parts, Done done) = 0;
  // Tells the peer that nothing more is sent; no write may follow. The stream
  // must outlive this too: with TLS it completes once the peer has answered.
  virtual void EndSending(Done done) = 0;
  // Operations in progress fail.
  virtual void Close() = 0;
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_HTTP_HTTP_STREAM_H_
