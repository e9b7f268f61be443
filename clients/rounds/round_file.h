// Reads files of a flight recorder.
#ifndef BOLE_CLIENTS_ROUNDS_ROUND_FILE_H_
#define BOLE_CLIENTS_ROUNDS_ROUND_FILE_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace bole {

// One line: its numbers and words by name.
struct FlightRound {
  std::map<std::string, double, std::less<>> numbers;
  std::map<std::string, std::string, std::less<>> words;

  // Return 0 or an empty string if the line has no such field: files of other
  // versions may lack some.
  double number(std::string_view name) const;
  std::string word(std::string_view name) const;
};

struct RoundFile {
  std::string service;  // "bole-scheduler" or "bole-worker".
  std::string version;
  std::string reason;
  double written_at = 0;            // Seconds since 1970.
  std::vector<FlightRound> rounds;  // Oldest first.
};

// INVALID_ARGUMENT, naming the line and what is wrong with it.
absl::StatusOr<RoundFile> ParseRounds(std::string_view json_lines);

}  // namespace bole

#endif  // BOLE_CLIENTS_ROUNDS_ROUND_FILE_H_
