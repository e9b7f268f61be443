#include "clients/bench/request_record.h"

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

std::string FailureReason(const RequestRecord& record) {
  std::string code = absl::StatusCodeToString(record.status.code());
  if (record.reason.empty() || record.reason == code) return code;
  return absl::StrCat(code, " ", record.reason);
}

}  // namespace bole::bench
