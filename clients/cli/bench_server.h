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

// As far as the load and its report depend on it.
struct BenchServer {
  std::string address;  // Or the URL.
  std::string version;
  std::string model;
  bool synthetic = false;   // The model is; gRPC alone tells it.
  std::string speculation;  // As people read it.
  bool chat = false;        // Messages may be sent as such.
  uint32_t vocab_size = 0;
  uint32_t max_context = 0;  // 0: not known.
  double round_trip_seconds = 0;
};

// Asks the server what it is, several times, for the time that takes, and says
// on stderr if it does not answer. Returns the exit code.
int AskWhatItIs(const BenchFlags& flags, Interrupt& interrupt,
                BenchServer& server);

// What the load goes over. Over gRPC, flags that make no sense end the process,
// as CreateClient() does it.
absl::StatusOr<std::shared_ptr<bench::Transport>> MakeTransport(
    const BenchFlags& flags);

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_BENCH_SERVER_H_
