// The client of the examples.
#ifndef BOLE_CLIENTS_SDK_EXAMPLES_CONNECT_H_
#define BOLE_CLIENTS_SDK_EXAMPLES_CONNECT_H_

#include <cstdlib>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "clients/sdk/client.h"

// A client of the server that the environment's BOLE_SERVER names. If an option
// makes no sense, says so and ends the program.
inline std::unique_ptr<bole::Client> Connect() {
  bole::ClientOptions options;
  if (const char* server = std::getenv("BOLE_SERVER")) options.address = server;
  absl::StatusOr<std::unique_ptr<bole::Client>> client =
      bole::Client::Create(options);
  if (client.ok()) return *std::move(client);
  std::cerr << client.status() << "\n";
  std::exit(2);
}

#endif  // BOLE_CLIENTS_SDK_EXAMPLES_CONNECT_H_
