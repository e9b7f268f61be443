#include "clients/bench/records.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace bole::bench {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 16;
constexpr int kMaxCount = 100'000'000;

std::string_view View(absl::string_view text) {
  return {text.data(), text.size()};
}

bool IsCompressed(std::string_view bytes) {
  return bytes.starts_with("\x28\xb5\x2f\xfd") ||  // zstd
         bytes.starts_with("\x1f\x8b");            // gzip
}

absl::Status AtLine(const absl::Status& status, size_t line) {
  return absl::InvalidArgumentError(absl::StrCat(
      "line ", line, ": ",
      absl::string_view(status.message().data(), status.message().size())));
}

absl::StatusOr<std::vector<json>> ParseArray(std::string_view text) {
  BOLE_ASSIGN_OR_RETURN(json array, ParseJson(text, kMaxDepth));
  for (const json& record : array) {
    if (!record.is_object()) {
      return absl::InvalidArgumentError(
          "an element of the array is not an object");
    }
  }
  return array.get<std::vector<json>>();
}

absl::StatusOr<json> ParseRow(const std::vector<std::string>& names,
                              absl::string_view line) {
  const std::vector<std::string> values = absl::StrSplit(line, ',');
  if (values.size() != names.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(values.size(), " values for ", names.size(), " columns"));
  }
  json record = json::object();
  for (size_t i = 0; i < names.size(); ++i) record[names[i]] = values[i];
  return record;
}

absl::StatusOr<json> ParseLine(std::string_view line) {
  BOLE_ASSIGN_OR_RETURN(json record, ParseJson(line, kMaxDepth));
  if (!record.is_object()) {
    return absl::InvalidArgumentError("not a JSON object");
  }
  return record;
}

absl::Status WrongField(const json& record, std::string_view name,
                        const char* wanted) {
  constexpr size_t kMaxQuoted = 60;
  const std::string value =
      record.contains(name)
          ? record[std::string(name)]
                .dump(-1, ' ', true, json::error_handler_t::replace)
                .substr(0, kMaxQuoted)
          : "absent";
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(name), " is ", value, " and should be ", wanted));
}

}  // namespace

absl::StatusOr<std::string> ReadFileOrStdin(const std::string& path) {
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    return absl::NotFoundError(absl::StrCat("cannot open ", path));
  }
  std::string bytes;
  char buffer[1 << 16];
  size_t size = 0;
  while ((size = std::fread(buffer, 1, sizeof(buffer), file)) > 0) {
    bytes.append(buffer, size);
  }
  if (file != stdin) std::fclose(file);
  if (IsCompressed(bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " is compressed: unpack it, or pipe it in with `zstd -dc FILE | "
        "bole bench -` or `zcat FILE | bole bench -`"));
  }
  return bytes;
}

absl::StatusOr<std::vector<json>> ParseRecords(std::string_view text) {
  const absl::string_view stripped =
      absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size()));
  if (absl::StartsWith(stripped, "[")) return ParseArray(View(stripped));
  const bool is_json = absl::StartsWith(stripped, "{");
  std::vector<std::string> names;
  std::vector<json> records;
  size_t line_number = 0;
  for (absl::string_view line : absl::StrSplit(stripped, '\n')) {
    ++line_number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    if (!is_json && names.empty()) {
      names = absl::StrSplit(line, ',');
      continue;
    }
    absl::StatusOr<json> record =
        is_json ? ParseLine(View(line)) : ParseRow(names, line);
    if (!record.ok()) return AtLine(record.status(), line_number);
    records.push_back(*std::move(record));
  }
  return records;
}

absl::StatusOr<int> CountField(const json& record, std::string_view name) {
  int count = -1;
  if (const auto found = record.find(name); found != record.end()) {
    if (found->is_string()) {
      if (!absl::SimpleAtoi(found->get_ref<const std::string&>(), &count)) {
        count = -1;
      }
    } else if (found->is_number_unsigned() && *found <= kMaxCount) {
      count = found->get<int>();
    }
  }
  if (count < 0 || count > kMaxCount) {
    return WrongField(record, name, "a whole number of tokens");
  }
  return count;
}

absl::StatusOr<double> NumberField(const json& record, std::string_view name) {
  const auto found = record.find(name);
  if (found == record.end() || !found->is_number()) {
    return WrongField(record, name, "a number");
  }
  return found->get<double>();
}

absl::StatusOr<std::string> TextField(const json& record,
                                      std::string_view name) {
  const auto found = record.find(name);
  if (found == record.end() || !found->is_string()) {
    return WrongField(record, name, "a text");
  }
  return found->get<std::string>();
}

absl::StatusOr<std::vector<std::string>> TextListField(const json& record,
                                                       std::string_view name) {
  const auto found = record.find(name);
  std::vector<std::string> texts;
  if (found == record.end() || !found->is_array()) {
    return WrongField(record, name, "a list of texts");
  }
  for (const json& text : *found) {
    if (!text.is_string()) return WrongField(record, name, "a list of texts");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

std::optional<double> ParseTimestamp(const std::string& text) {
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hour = 0;
  int minute = 0;
  double second = 0;
  char separator = 0;
  if (std::sscanf(text.c_str(), "%d-%u-%u%c%d:%d:%lf", &year, &month, &day,
                  &separator, &hour, &minute, &second) != 7 ||
      (separator != ' ' && separator != 'T')) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(month),
                                         std::chrono::day(day)};
  if (!date.ok()) return std::nullopt;
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  constexpr double kSecondsPerDay = 86400;
  return static_cast<double>(days) * kSecondsPerDay + hour * 3600.0 +
         minute * 60.0 + second;
}

}  // namespace bole::bench
