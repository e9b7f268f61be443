#include "clients/bench/workload_reader.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/bench/record_formats.h"
#include "clients/bench/records.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace bole::bench {
namespace {

using nlohmann::json;

bool Has(const json& record, const RecordFormat& format) {
  return std::all_of(format.fields.begin(), format.fields.end(),
                     [&](const char* field) { return record.contains(field); });
}

absl::StatusOr<RecordFormat> FormatOf(const json& record) {
  std::vector<std::string> known;
  for (const RecordFormat& format : RecordFormats()) {
    if (Has(record, format)) return format;
    known.push_back(absl::StrCat(format.name, " (",
                                 absl::StrJoin(format.fields, ", "), ")"));
  }
  std::vector<std::string> fields;
  for (const auto& [field, value] : record.items()) fields.push_back(field);
  return absl::InvalidArgumentError(absl::StrCat(
      "no known format has the fields ", absl::StrJoin(fields, ", "),
      " of the first record; known are ", absl::StrJoin(known, ", ")));
}

// Appends what a record became: a session, or a turn of the last one.
void Add(Session part, bool turns_in_succession,
         std::vector<Session>& sessions) {
  if (part.turns.empty()) return;  // A conversation without an answer.
  if (turns_in_succession && !sessions.empty() &&
      sessions.back().name == part.name) {
    std::move(part.turns.begin(), part.turns.end(),
              std::back_inserter(sessions.back().turns));
    return;
  }
  sessions.push_back(std::move(part));
}

// Arrivals count from the earliest, which becomes 0, and are in order.
void OrderByArrival(Workload& workload) {
  if (!HasArrivals(workload)) return;
  double first = std::numeric_limits<double>::infinity();
  for (const Session& session : workload.sessions) {
    first = std::min(first, *session.start_seconds);
  }
  for (Session& session : workload.sessions) *session.start_seconds -= first;
  std::stable_sort(workload.sessions.begin(), workload.sessions.end(),
                   [](const Session& a, const Session& b) {
                     return *a.start_seconds < *b.start_seconds;
                   });
}

}  // namespace

absl::StatusOr<Workload> ParseWorkload(std::string_view text,
                                       const std::string& name) {
  BOLE_ASSIGN_OR_RETURN(const std::vector<json> records, ParseRecords(text));
  if (records.empty()) {
    return absl::InvalidArgumentError("there are no records");
  }
  BOLE_ASSIGN_OR_RETURN(const RecordFormat format, FormatOf(records.front()));
  Workload workload{.name = name, .format = format.name, .sessions = {}};
  for (size_t i = 0; i < records.size(); ++i) {
    absl::StatusOr<Session> session =
        Has(records[i], format)
            ? format.decode(records[i])
            : absl::InvalidArgumentError(absl::StrCat(
                  "it lacks a field of ", absl::StrJoin(format.fields, ", ")));
    if (!session.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("record ", i + 1, " (", format.name, "): ",
                       absl::string_view(session.status().message().data(),
                                         session.status().message().size())));
    }
    Add(*std::move(session), format.turns_in_succession, workload.sessions);
  }
  if (workload.sessions.empty()) {
    return absl::InvalidArgumentError("no record has a prompt");
  }
  OrderByArrival(workload);
  return workload;
}

absl::StatusOr<Workload> ReadWorkload(const std::string& path) {
  BOLE_ASSIGN_OR_RETURN(const std::string text, ReadFileOrStdin(path));
  const size_t slash = path.rfind('/');
  const std::string name = path == "-" ? "stdin" : path.substr(slash + 1);
  absl::StatusOr<Workload> workload = ParseWorkload(text, name);
  if (workload.ok()) return workload;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ",
                   absl::string_view(workload.status().message().data(),
                                     workload.status().message().size())));
}

}  // namespace bole::bench
