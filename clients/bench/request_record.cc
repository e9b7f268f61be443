#include "clients/bench/request_record.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace bole::bench {

int OutputTokens(const RequestRecord& record) {
  int tokens = 0;
  for (const TokenArrival& arrival : record.arrivals) tokens += arrival.tokens;
  return tokens;
}

std::optional<double> FirstTokenTime(const RequestRecord& record) {
  if (record.arrivals.empty()) return std::nullopt;
  return record.arrivals.front().seconds;
}

std::optional<double> LastTokenTime(const RequestRecord& record) {
  if (record.arrivals.empty()) return std::nullopt;
  return record.arrivals.back().seconds;
}

std::optional<double> TimePerOutputToken(const RequestRecord& record) {
  const int tokens = OutputTokens(record);
  if (!record.status.ok() || tokens < 2) return std::nullopt;
  return (record.end - record.arrivals.front().seconds) / (tokens - 1);
}

bool IsRefusal(const RequestRecord& record) {
  return record.arrivals.empty() && (absl::IsResourceExhausted(record.status) ||
                                     absl::IsUnavailable(record.status));
}

std::string FailureReason(const absl::Status& status) {
  const std::string code = absl::StatusCodeToString(status.code());
  const std::string message(status.message().data(), status.message().size());
  const size_t colon = message.find(": ");
  const bool has_reason =
      colon != std::string::npos && colon > 0 &&
      std::all_of(message.begin(),
                  message.begin() + static_cast<std::ptrdiff_t>(colon),
                  [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
  return has_reason ? absl::StrCat(code, " ", message.substr(0, colon)) : code;
}

}  // namespace bole::bench
