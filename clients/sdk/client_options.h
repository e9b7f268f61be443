// The options of a client, and those of a single call.
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
  // The model for requests that name none. Empty: the only model that is
  // served.
  std::string model = {};
  // PEM files. With `ca_file` the connection uses TLS, and the server's
  // certificate must come from an authority in that file; without it, nothing
  // is encrypted. The other two are the client's own certificate and its key,
  // for a server that requests one: set both or neither, and only with
  // `ca_file`.
  std::string ca_file = {};
  std::string cert_file = {};
  std::string key_file = {};
  // The name in the server's certificate. Empty: the host of `address`.
  std::string server_name = {};
  // A token, or a file that holds it; at most one of the two may be set. Every
  // call sends it as "authorization: Bearer TOKEN". The file is read once;
  // white space around the token is removed. Without TLS, a token may be sent
  // only to a server on the same machine.
  std::string token = {};
  std::string token_file = {};
  std::string tenant = {};  // See the head of bole.proto. Empty: none.
  // The timeout, over all attempts, of a call that has none of its own. Absent:
  // there is no limit.
  std::optional<std::chrono::milliseconds> timeout = {};
  RetryPolicy retry = {};
  // Clients of one process with the same connection settings share a TCP
  // connection, unless they request one of their own with this.
  bool own_connection = false;
};

// The options of one call. The client's apply where they are absent.
struct CallOptions {
  std::optional<std::chrono::milliseconds> timeout = {};
  std::optional<RetryPolicy> retry = {};
  // Lets another thread cancel a call that blocks. Must outlive the call. Not
  // for GenerateAsync(), which returns an object that cancels the call.
  Cancellation* cancellation = nullptr;
};

}  // namespace bole

#endif  // BOLE_CLIENTS_SDK_CLIENT_OPTIONS_H_
