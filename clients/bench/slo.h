// Service level objectives, by which goodput is defined.
#ifndef BOLE_CLIENTS_BENCH_SLO_H_
#define BOLE_CLIENTS_BENCH_SLO_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "clients/bench/request_record.h"

namespace bole::bench {

// Upper bounds in seconds, each for one request. Absent: no bound.
struct Slo {
  std::optional<double> ttft = std::nullopt;
  std::optional<double> tpot = std::nullopt;
  std::optional<double> e2e = std::nullopt;
};

// From "ttft:500,tpot:50,e2e:10000", in milliseconds; an empty text has no
// bounds. INVALID_ARGUMENT names the part that is wrong.
absl::StatusOr<Slo> ParseSlo(const std::string& text);

// "ttft <= 500 ms, tpot <= 50 ms"; "none" without bounds.
std::string SloText(const Slo& slo);

// Whether the request ended well and within all bounds. Times count from the
// scheduled arrival; a request of one token meets any bound on tpot.
bool Meets(const RequestRecord& record, const Slo& slo);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_SLO_H_
