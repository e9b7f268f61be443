// Where a server may listen.
#ifndef BOLE_COMMON_NET_LISTEN_ADDRESS_H_
#define BOLE_COMMON_NET_LISTEN_ADDRESS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace bole {

enum class Reach {
  kLoopback,  // Clients on this machine only.
  kAnywhere,  // Clients on other machines, too.
};

struct ListenAddress {
  std::string host;  // Never a name; an IPv6 address is without brackets.
  int port = 0;      // 0: any that is free.

  // "127.0.0.1:50051", "[::1]:50051"
  std::string ToString() const;
};

// Reads "HOST:PORT", HOST being an IPv4 address, an IPv6 address in brackets,
// or "localhost" for 127.0.0.1.
//
//   INVALID_ARGUMENT   it is anything else.
//   PERMISSION_DENIED  HOST is not on the loopback interface and `reach` does
//                      not allow that.
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text,
                                                 Reach reach);

}  // namespace bole

#endif  // BOLE_COMMON_NET_LISTEN_ADDRESS_H_
