// TLS of an HTTP server: its certificate, and which clients it accepts.
#ifndef BOLE_COMMON_NET_HTTP_SERVER_TLS_H_
#define BOLE_COMMON_NET_HTTP_SERVER_TLS_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/file_watch.h"
#include "common/mutex.h"
#include "common/net/pem_files.h"

namespace boost::asio::ssl {
class context;
}

namespace bole {

struct ServerTlsOptions {
  TlsFiles files = {};
  // Called by a thread when the files were read again, or with the reason why
  // not. May be null.
  std::function<void(const std::string&)> note = nullptr;
  // Changed files are read once they have stayed the same for this time.
  std::chrono::milliseconds poll_interval{500};
};

// TLS 1.2 or later, ALPN http/1.1 and http/1.0, no session resumption, so that
// every connection is checked. Files are read again when they change; unusable
// ones are ignored. Servers may share one.
//
// Thread-safe.
class ServerTls {
 public:
  // Null if no files are named. The errors of Check(TlsFiles), and
  // INVALID_ARGUMENT, naming the file, if OpenSSL does not take one.
  static absl::StatusOr<std::shared_ptr<ServerTls>> Open(
      ServerTlsOptions options);
  ~ServerTls();

  ServerTls(const ServerTls&) = delete;
  ServerTls& operator=(const ServerTls&) = delete;

  // The context for a new connection, which keeps it.
  std::shared_ptr<boost::asio::ssl::context> context() const;

 private:
  ServerTls(ServerTlsOptions options,
            std::shared_ptr<boost::asio::ssl::context> tls, std::string stamp);

  void Reload();

  const ServerTlsOptions options_;
  mutable Mutex mutex_;
  std::shared_ptr<boost::asio::ssl::context> context_ ABSL_GUARDED_BY(mutex_);
  FileWatch watch_;  // Uses the other members, so it is last.
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_HTTP_SERVER_TLS_H_
