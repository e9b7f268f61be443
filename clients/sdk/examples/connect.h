// The client of the examples.
#ifndef BOLE_CLIENTS_SDK_EXAMPLES_CONNECT_H_
#define BOLE_CLIENTS_SDK_EXAMPLES_CONNECT_H_

#include <cstdlib>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "clients/sdk/client.h"

// Creates a client of the server that the environment variable BOLE_SERVER
// names. If an option is invalid, prints an error and ends the program.
inline std::unique_ptr<bole::Client> Connect() {
  bole::ClientOptions options;
  // Nothing else runs yet.
  const char* const server =
      std::getenv("BOLE_SERVER");  // NOLINT(concurrency-mt-unsafe)
  if (server != nullptr) options.address = server;
  absl::StatusOr<std::unique_ptr<bole::Client>> client =
      bole::Client::Create(options);
  if (client.ok()) return *std::move(client);
  std::cerr << client.status() << "\n";
  std::exit(2);  // NOLINT(concurrency-mt-unsafe)
}

#endif  // BOLE_CLIENTS_SDK_EXAMPLES_CONNECT_H_
