#include "clients/bench/server_metrics.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace bole::bench {
namespace {

// The sum of all series of one name that have a label: "code=\"OK\"". Without
// one, of all of them.
double Total(const MetricValues& values, const std::string& name,
             const std::string& label = "") {
  double total = 0;
  for (const auto& [series, value] : values) {
    const bool same = series == name || series.starts_with(name + "{");
    total += same && series.find(label) != std::string::npos ? value : 0;
  }
  return total;
}

double Value(const MetricValues& values, const std::string& series) {
  const auto found = values.find(series);
  return found == values.end() ? 0 : found->second;
}

MetricPair Count(std::string name, double client, double server) {
  return {.name = std::move(name),
          .client = client,
          .server = server,
          .is_count = true,
          .agrees = client == server};
}

// Means of a latency, and how many samples they have.
void AddLatency(const Metric& metric, const std::string& histogram,
                const MetricValues& server, double round_trip,
                std::vector<MetricPair>& pairs) {
  const double count = Total(server, histogram + "_count");
  const double mean = count > 0 ? Total(server, histogram + "_sum") / count : 0;
  const Distribution& client = *metric.distribution;
  pairs.push_back(Count(absl::StrCat(metric.key, " samples"),
                        static_cast<double>(client.count()), count));
  constexpr double kTolerance = 0.05;
  pairs.push_back({.name = absl::StrCat(metric.key, " mean"),
                   .client = client.mean(),
                   .server = mean,
                   .is_count = false,
                   .agrees = std::abs(client.mean() - mean) <=
                             kTolerance * mean + round_trip});
}

}  // namespace

MetricValues ParseMetrics(std::string_view page) {
  MetricValues values;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(page.data(), page.size()), '\n')) {
    if (line.empty() || line[0] == '#') continue;
    // Labels may hold spaces, but no value follows a closing brace directly.
    const size_t brace = line.rfind('}');
    const size_t space =
        line.find(' ', brace == absl::string_view::npos ? 0 : brace);
    if (space == absl::string_view::npos) continue;
    const std::vector<absl::string_view> rest =
        absl::StrSplit(line.substr(space + 1), ' ');
    double value = 0;
    if (!absl::SimpleAtod(rest[0], &value)) continue;
    values[std::string(line.substr(0, space))] = value;
  }
  return values;
}

MetricValues Difference(const MetricValues& before, const MetricValues& after) {
  MetricValues difference = after;
  for (auto& [series, value] : difference) value -= Value(before, series);
  return difference;
}

std::vector<MetricPair> CompareWithServer(const Report& report,
                                          const MetricValues& server,
                                          double round_trip_seconds,
                                          bool speculation_told) {
  std::vector<MetricPair> pairs = {
      Count("ended well", report.num_succeeded,
            Total(server, "bole_requests_total", "code=\"OK\"")),
      // Every attempt is one to the server.
      Count("refused", report.num_refused + report.num_retries,
            Total(server, "bole_rejected_total")),
      Count("output tokens", static_cast<double>(report.output_tokens),
            Total(server, "bole_generation_tokens_total")),
      Count("prompt tokens", static_cast<double>(report.prompt_tokens),
            Total(server, "bole_prompt_tokens_total")),
  };
  if (speculation_told) {
    pairs.push_back(Count("rounds",
                          static_cast<double>(report.speculation.rounds()),
                          Total(server, "bole_spec_rounds_total")));
    pairs.push_back(
        Count("accepted drafts",
              static_cast<double>(report.speculation.accepted_drafts()),
              Total(server, "bole_spec_accepted_tokens_total")));
  }
  const std::pair<Metric, const char*> latencies[] = {
      {{"ttft", "", &report.sent_ttft}, "bole_time_to_first_token_seconds"},
      {{"tpot", "", &report.tpot}, "bole_time_per_output_token_seconds"},
      {{"itl", "", &report.itl}, "bole_inter_token_latency_seconds"},
      {{"e2e", "", &report.sent_e2e}, "bole_e2e_request_latency_seconds"},
  };
  for (const auto& [metric, histogram] : latencies) {
    AddLatency(metric, histogram, server, round_trip_seconds, pairs);
  }
  return pairs;
}

}  // namespace bole::bench
