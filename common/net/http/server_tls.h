// TLS of an HTTP server: what it shows, and whom it lets in.
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
  // Told by a thread that the files were read again, or why not. May be null.
  std::function<void(const std::string&)> note = nullptr;
  // A change that has stood still for this time is taken.
  std::chrono::milliseconds poll_interval{500};
};

// TLS 1.2 or later, ALPN http/1.1 and http/1.0, no resumption of sessions: who
// connects is checked each time. Files are followed as they change; those that
// are of no use change nothing. Servers may share one.
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

  // For a connection that comes now, which keeps it.
  std::shared_ptr<boost::asio::ssl::context> context() const;

 private:
  ServerTls(ServerTlsOptions options,
            std::shared_ptr<boost::asio::ssl::context> tls, std::string stamp);

  void Reload();

  const ServerTlsOptions options_;
  mutable Mutex mutex_;
  std::shared_ptr<boost::asio::ssl::context> context_ ABSL_GUARDED_BY(mutex_);
  FileWatch watch_;  // Uses the rest: last.
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_HTTP_SERVER_TLS_H_
