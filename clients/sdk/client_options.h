// What a client is told when it is made, and what a call may be told.
#ifndef BOLE_CLIENTS_SDK_CLIENT_OPTIONS_H_
#define BOLE_CLIENTS_SDK_CLIENT_OPTIONS_H_

#include <chrono>
#include <optional>
#include <string>

#include "clients/sdk/cancellation.h"
#include "clients/sdk/retry_policy.h"

namespace bole {

struct ClientOptions {
  std::string address = "127.0.0.1:8400";
  // Requests that name no model ask this one. Empty: the only one that is
  // served.
  std::string model = {};
  // PEM files. With `ca_file`, whose authorities the server's certificate must
  // come from, the connection is TLS; without, it is not encrypted. The other
  // two are the client's own certificate and its key, for a server that asks
  // for one: both or none, and only with `ca_file`.
  std::string ca_file = {};
  std::string cert_file = {};
  std::string key_file = {};
  // The name in the server's certificate. Empty: the host of `address`.
  std::string server_name = {};
  // Sent with every call as "authorization: Bearer TOKEN". At most one of the
  // two. A file is read once; white space around the token is left out. Without
  // TLS a token goes to this machine only.
  std::string token = {};
  std::string token_file = {};
  std::string tenant = {};  // As the head of bole.proto says; empty: none.
  // A call that has no timeout of its own may take this long, with all its
  // attempts. Absent: it may take any time.
  std::optional<std::chrono::milliseconds> timeout = {};
  RetryPolicy retry = {};
  // Clients of one process that are alike share a TCP connection if they do not
  // ask for one of their own.
  bool own_connection = false;
};

// Of one call; what is absent is the client's.
struct CallOptions {
  std::optional<std::chrono::milliseconds> timeout = {};
  std::optional<RetryPolicy> retry = {};
  // Ends a call that blocks, from another thread. It outlives the call. Not for
  // GenerateAsync(), whose call can be cancelled itself.
  Cancellation* cancellation = nullptr;
};

}  // namespace bole

#endif  // BOLE_CLIENTS_SDK_CLIENT_OPTIONS_H_
