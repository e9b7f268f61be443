// Whether files are what TLS needs.
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

// How often files are looked at that may change.
inline constexpr unsigned kPemRefreshSeconds = 1;

// INVALID_ARGUMENT, naming the file, if one cannot be read or has no
// certificate or no private key in PEM, or if the key is not the certificate's.
absl::Status CheckKeyPair(const std::string& cert_path,
                          const std::string& key_path);

// The same of certificates alone.
absl::Status CheckCertificates(const std::string& path);

// The same of all that are named; also if certificates of clients are named
// without a pair. OK if there are none.
absl::Status Check(const TlsFiles& files);

// When the first of the file's certificates ends, in seconds since 1970.
// INVALID_ARGUMENT, naming the file, as above.
absl::StatusOr<int64_t> EndOfCertificates(const std::string& path);

}  // namespace bole

#endif  // BOLE_COMMON_NET_PEM_FILES_H_
