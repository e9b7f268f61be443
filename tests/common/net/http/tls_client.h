// A client of TLS, as willing as a test wants it.
#ifndef BOLE_TESTS_COMMON_NET_HTTP_TLS_CLIENT_H_
#define BOLE_TESTS_COMMON_NET_HTTP_TLS_CLIENT_H_

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>

#include "tests/common/net/http/raw_client.h"
#include "tests/common/net/test_certificates.h"

namespace bole::testing {

struct TlsClientOptions {
  std::string roots;  // In PEM: whom it believes, under any name.
  CertifiedKey own = {};
  int version = 0;  // The only one, such as TLS1_2_VERSION; 0: the best.
  std::string protocols = {};  // Offered by ALPN, each behind its length.
};

// Reads wait at most 20 s. One thread.
class TlsClient {
 public:
  TlsClient(int port, const TlsClientOptions& options);

  // Returns false if there is none; then error() says why. With TLS 1.3 it is
  // the first read that tells whether the server takes the client.
  bool Handshake();
  // OpenSSL's reason, such as SSL_R_TLSV1_ALERT_PROTOCOL_VERSION.
  int error() const { return error_; }

  // "TLSv1.3", and what ALPN chose.
  std::string version() const { return SSL_get_version(tls_.get()); }
  std::string protocol() const;

  bool Send(std::string_view bytes);
  // Reads until `text` has come, or the end. Returns all that was read.
  std::string ReadUntil(std::string_view text);
  std::string ReadAll() { return ReadUntil(std::string_view()); }
  // Whether the end of what was read was said to be one.
  bool has_clean_end() const {
    return (SSL_get_shutdown(tls_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
  }
  // Leaves without a word.
  void Close() { socket_.Close(); }

 private:
  template <typename T>
  using Owned = std::unique_ptr<T, void (*)(T*)>;

  RawClient socket_;
  const Owned<SSL_CTX> context_;
  const Owned<SSL> tls_;
  int error_ = 0;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_COMMON_NET_HTTP_TLS_CLIENT_H_
