// How a client of one of our services proves who it is, and whom it trusts.
#ifndef BOLE_COMMON_NET_CLIENT_CREDENTIALS_H_
#define BOLE_COMMON_NET_CLIENT_CREDENTIALS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

namespace bole {

// Files in PEM. All empty: nothing is encrypted.
struct TlsClientFiles {
  std::string ca = {};    // Authorities for the server's certificate.
  std::string cert = {};  // The client's chain, its own first, and
  std::string key = {};  // its private key, without a password. Empty: nothing.
  // The name in the server's certificate. Empty: what the address says.
  std::string server_name = {};

  bool empty() const { return ca.empty(); }
};

// Makes channels. Copies share what was read. Thread-safe.
class ClientCredentials {
 public:
  ClientCredentials();  // Nothing is encrypted.

  // TLS 1.2 or later if there is a `ca`. The files are read again within a
  // second when they change, as those of MakeServerCredentials(). INVALID_
  // ARGUMENT, naming the file, if one cannot be read; if the key is not the
  // certificate's; or if anything is named without `ca`.
  static absl::StatusOr<ClientCredentials> Open(const TlsClientFiles& files);

  // A channel to "HOST:PORT", which connects with the first call.
  std::shared_ptr<grpc::Channel> ChannelTo(
      const std::string& address, grpc::ChannelArguments arguments) const;

 private:
  std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::string server_name_;
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_CLIENT_CREDENTIALS_H_
