// The server that `bole bench` sends a load to.
#ifndef BOLE_CLIENTS_CLI_BENCH_SERVER_H_
#define BOLE_CLIENTS_CLI_BENCH_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "clients/bench/transport.h"
#include "clients/cli/bench_flags.h"
#include "clients/cli/interrupt.h"

namespace bole {

// The properties of the server on which the load and its report depend.
struct BenchServer {
  std::string address;  // Or the URL.
  std::string version;
  std::string model;
  bool synthetic = false;   // The model is; known only over gRPC.
  std::string speculation;  // For people.
  bool chat = false;        // Messages may be sent as such.
  uint32_t vocab_size = 0;
  uint32_t max_context = 0;  // 0: not known.
  double round_trip_seconds = 0;
};

// Queries the properties of the server, several times in order to measure the
// round trip. Prints an error to stderr if that fails. Returns the exit code.
int AskWhatItIs(const BenchFlags& flags, Interrupt& interrupt,
                BenchServer& server);

// Creates the transport of the load. Over gRPC, invalid flags end the process
// as in CreateClient().
absl::StatusOr<std::shared_ptr<bench::Transport>> MakeTransport(
    const BenchFlags& flags);

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_BENCH_SERVER_H_
