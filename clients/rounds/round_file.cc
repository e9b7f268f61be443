#include "clients/rounds/round_file.h"

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

absl::Status At(size_t line, const absl::AlphaNum& what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
}

// An object of numbers, texts and nulls.
absl::StatusOr<FlightRound> ParseLine(std::string_view text, size_t line) {
  const absl::StatusOr<nlohmann::json> json = ParseJson(text, /*max_depth=*/1);
  if (!json.ok()) return At(line, json.status().message());
  if (!json->is_object()) return At(line, "not an object");
  FlightRound round;
  for (const auto& [name, value] : json->items()) {
    if (value.is_number()) {
      round.numbers[name] = value.get<double>();
    } else if (value.is_string()) {
      round.words[name] = value.get<std::string>();
    } else if (!value.is_null()) {
      return At(line, absl::StrCat(name, " is ", value.dump(),
                                   ", neither a number nor a text"));
    }
  }
  return round;
}

}  // namespace

double FlightRound::number(std::string_view name) const {
  const auto at = numbers.find(name);
  return at == numbers.end() ? 0 : at->second;
}

std::string FlightRound::word(std::string_view name) const {
  const auto at = words.find(name);
  return at == words.end() ? "" : at->second;
}

absl::StatusOr<RoundFile> ParseRounds(std::string_view json_lines) {
  RoundFile file;
  for (size_t line = 1; !json_lines.empty(); ++line) {
    const size_t end = json_lines.find('\n');
    const std::string_view text = json_lines.substr(0, end);
    json_lines.remove_prefix(end == json_lines.npos ? json_lines.size()
                                                    : end + 1);
    BOLE_ASSIGN_OR_RETURN(FlightRound round, ParseLine(text, line));
    if (line > 1) {
      file.rounds.push_back(std::move(round));
      continue;
    }
    file.service = round.word("flight_record");
    if (file.service.empty()) {
      return At(line, "it does not say whose flight_record this is");
    }
    file.version = round.word("version");
    file.reason = round.word("reason");
    file.written_at = round.number("written_at");
  }
  if (file.service.empty()) return absl::InvalidArgumentError("it is empty");
  return file;
}

}  // namespace bole
