// How a gRPC server proves who it is, and whom it lets in.
#ifndef BOLE_COMMON_NET_SERVER_CREDENTIALS_H_
#define BOLE_COMMON_NET_SERVER_CREDENTIALS_H_

#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/net/pem_files.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/support/status.h"

namespace bole {

// Decides whether a call may proceed, by its method, "/PACKAGE.SERVICE/METHOD",
// and the value of its metadata "authorization" (several are separated by
// commas). An error ends the call with its code and message before its service
// sees it. Called by several threads, for every call of every method, including
// those that no service has; it must not block.
using CallGuard = std::function<grpc::Status(std::string_view method,
                                             std::string_view authorization)>;

// TLS 1.2 or later if there are files, which are read again within a second
// when they change: later connections use the new ones. A certificate and its
// key should change together, by renaming a link to their folder: while the two
// do not match, connections fail. `guard` may be null. INVALID_ARGUMENT, naming
// the file, if one cannot be read, or if the key is not the certificate's.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsFiles& files, CallGuard guard);

}  // namespace bole

#endif  // BOLE_COMMON_NET_SERVER_CREDENTIALS_H_
