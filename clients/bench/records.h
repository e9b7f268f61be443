// The records of a data file: JSON lines, one JSON array, or CSV.
#ifndef BOLE_CLIENTS_BENCH_RECORDS_H_
#define BOLE_CLIENTS_BENCH_RECORDS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace bole::bench {

// All bytes of the file at `path`, or of stdin for "-".
//
// NOT_FOUND: it cannot be opened. INVALID_ARGUMENT: it is compressed.
absl::StatusOr<std::string> ReadFileOrStdin(const std::string& path);

// The objects in `text`: one JSON array of them, one on each line, or the rows
// of a CSV file by the names of its first line, all values as strings. Empty
// lines are skipped.
//
// INVALID_ARGUMENT, with the number of the line: it is none of these.
absl::StatusOr<std::vector<nlohmann::json>> ParseRecords(std::string_view text);

// Fields of a record. INVALID_ARGUMENT names the field and what it holds.
//
// A whole number from 0 to 100 million; it may be written as a string.
absl::StatusOr<int> CountField(const nlohmann::json& record,
                               std::string_view name);
absl::StatusOr<double> NumberField(const nlohmann::json& record,
                                   std::string_view name);
absl::StatusOr<std::string> TextField(const nlohmann::json& record,
                                      std::string_view name);
absl::StatusOr<std::vector<std::string>> TextListField(
    const nlohmann::json& record, std::string_view name);

// Seconds since 1970 of "2023-11-16 18:17:03.97996", or with a "T" in place of
// the space. Absent: the text is anything else.
std::optional<double> ParseTimestamp(const std::string& text);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_RECORDS_H_
