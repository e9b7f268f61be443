// Checks the files that TLS needs.
#ifndef BOLE_COMMON_NET_PEM_FILES_H_
#define BOLE_COMMON_NET_PEM_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace bole {

// Files of a server. All empty: nothing is encrypted.
struct TlsFiles {
  std::string cert = {};       // The chain, the server's own first.
  std::string key = {};        // Its private key, without a password.
  std::string client_ca = {};  // If set, clients need a certificate of these.

  bool empty() const { return cert.empty() && key.empty(); }
};

// How often files that may change are checked.
inline constexpr unsigned kPemRefreshSeconds = 1;

// INVALID_ARGUMENT, naming the file, if one cannot be read or has no
// certificate or no private key in PEM, or if the key is not the certificate's.
absl::Status CheckKeyPair(const std::string& cert_path,
                          const std::string& key_path);

// The same for a file with certificates alone.
absl::Status CheckCertificates(const std::string& path);

// The same for all files that are named; also if `client_ca` is named without a
// key pair. OK if none is named.
absl::Status Check(const TlsFiles& files);

// When the first of the file's certificates expires, in seconds since 1970.
// INVALID_ARGUMENT, naming the file, as above.
absl::StatusOr<int64_t> EndOfCertificates(const std::string& path);

}  // namespace bole

#endif  // BOLE_COMMON_NET_PEM_FILES_H_
