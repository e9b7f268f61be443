// The numbers of a run. Definitions() says what each of them means.
#ifndef BOLE_CLIENTS_BENCH_REPORT_H_
#define BOLE_CLIENTS_BENCH_REPORT_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "clients/bench/distribution.h"
#include "clients/bench/request_record.h"
#include "clients/bench/slo.h"
#include "proto/bole.pb.h"

namespace bole::bench {

// The definitions as text for people: a line for each term, without a line
// feed at the end.
const char* Definitions();

// Times are in seconds.
struct Report {
  double duration = 0;
  // Requests that were sent and have ended, whether well or not.
  int num_requests = 0;
  int num_succeeded = 0;
  int num_refused = 0;  // IsRefusal()
  int num_failed = 0;   // In any other way.
  int num_good = 0;     // Meets(slo)
  int num_dropped = 0;  // Turns that were not sent.
  int num_retries = 0;
  int num_resumes = 0;
  std::map<std::string, int> failures;  // By FailureReason().
  Slo slo;

  // Prompt tokens of the requests that ended well.
  int64_t prompt_tokens = 0;
  // The part of prompt_tokens that the server found in its cache.
  int64_t cached_tokens = 0;
  // Output tokens of all requests, including those that failed.
  int64_t output_tokens = 0;
  // Over the requests that ended well. It has the most frequent reason for
  // rounds without drafts; off_reasons has the number of rounds for every
  // reason that requests reported.
  v1::Speculation speculation;
  std::map<v1::SpeculationOffReason, int64_t> off_reasons;

  // From the scheduled arrival.
  Distribution ttft;
  Distribution e2e;
  // From sending, for comparison with what the server measures.
  Distribution sent_ttft;
  Distribution sent_e2e;
  Distribution tpot;
  Distribution itl;
  Distribution lag;  // From the scheduled arrival to sending, retries aside.

  double request_rate() const;  // Ended well, per second.
  double output_token_rate() const;
  double prompt_token_rate() const;
  double goodput() const;               // Good requests per second.
  double attainment() const;            // Share of good requests, 0 to 1.
  double mean_accepted_tokens() const;  // 0 without rounds.
};

// `num_dropped` is the schedule's.
Report MakeReport(std::span<const RequestRecord> records, const Slo& slo,
                  int num_dropped);

// Whether the client itself may have limited the measurement: the 99th
// percentile of its lag exceeds both 10 ms and a tenth of the median time to
// first token.
bool ClientWasLate(const Report& report);

// One row of the table of latencies.
struct Metric {
  const char* key;   // "ttft"
  const char* name;  // "time to first token"
  const Distribution* distribution;
};

// The latencies of `report`, which must outlive them, in the order of a table.
std::vector<Metric> LatencyMetrics(const Report& report);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_REPORT_H_
