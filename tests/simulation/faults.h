// When a simulated worker fails, and how.
#ifndef BOLE_TESTS_SIMULATION_FAULTS_H_
#define BOLE_TESTS_SIMULATION_FAULTS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/step.h"

namespace bole::simulation {

enum class FaultKind {
  kCrash,    // The process ends at once, with kCrashExitCode.
  kHang,     // The round is never answered; heartbeats go on.
  kGarbage,  // The result is one that no engine may give.
  kSlow,     // The round takes several times as long.
};
inline constexpr int kNumFaultKinds = 4;
inline constexpr int kCrashExitCode = 70;

// What is wrong with a result, which is well-formed on the wire.
enum class Garbage {
  kCommitted,  // "committed": tokens beyond the context.
  kToken,      // "token": a token outside of the vocabulary.
  kRound,      // "round": another round's number.
  kTree,       // "tree": a proposal with a parent that comes later.
  kShape,      // "shape": a sequence too few.
  kMany,       // "many": more tokens than the context has.
  kNumber,     // "number": another plan's number, which only the wire has.
};
inline constexpr int kNumGarbage = 7;

struct Fault {
  FaultKind kind = FaultKind::kCrash;
  std::optional<Garbage> garbage;  // Without: any, by the seed and the round.
  // Factor on the time of a slow round.
  double factor = 1;
  // The rounds, counted from 1 over the life of the worker, or the probability
  // of each.
  int64_t first_round = 1;
  int64_t last_round = std::numeric_limits<int64_t>::max();
  double probability = 1;
  uint64_t seed = 0;
  // Instead of all that: in the round that begins after a signal. Such faults
  // take turns, one for each signal, in their order.
  bool on_signal = false;
};

// Reads "KIND@WHEN" or "KIND:random=PROBABILITY[,SEED]". KIND is crash, hang,
// garbage, garbage=WHAT or slow:FACTOR; WHEN is a round, FIRST-LAST, FIRST- for
// all from that one on, or "signal". INVALID_ARGUMENT saying what is allowed.
absl::StatusOr<Fault> ParseFault(std::string_view text);

// What is to happen in one round.
struct RoundFaults {
  bool crash = false;
  bool hang = false;
  double slowness = 1;
  std::optional<Garbage> garbage;
  uint64_t bits = 0;  // For what garbage leaves open.
};

// The same faults give the same rounds. `round` is counted from 1, and so is
// `signal`, the number of the signal that came before it; 0: none did.
RoundFaults FaultsOf(const std::vector<Fault>& faults, int64_t round,
                     int signal = 0);

// Spoils the result of a round. A kind that needs what the result lacks, such
// as a proposal, becomes kShape; kNumber changes nothing here.
void Spoil(const RoundFaults& faults, const StepLimits& limits,
           StepResult& result);

}  // namespace bole::simulation

#endif  // BOLE_TESTS_SIMULATION_FAULTS_H_
