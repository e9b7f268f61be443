#include "clients/bench/report_text.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/output.h"
#include "proto/bole.pb.h"

namespace bole::bench {
namespace {

std::string Percent(double share) {
  return absl::StrFormat("%.1f %%", 100 * share);
}

std::string CountsText(const Report& report) {
  std::string text = absl::StrFormat(
      "%d sent, %d ended well, %d refused, %d failed", report.num_requests,
      report.num_succeeded, report.num_refused, report.num_failed);
  if (report.num_retries > 0) {
    absl::StrAppend(&text, ", ", report.num_retries, " retries");
  }
  if (report.num_resumes > 0) {
    absl::StrAppend(&text, ", ", report.num_resumes, " resumed");
  }
  if (report.num_dropped > 0) {
    absl::StrAppend(&text, ", ", report.num_dropped, " later turns not sent");
  }
  return text;
}

std::string CachedText(const Report& report) {
  const double share = report.prompt_tokens > 0
                           ? static_cast<double>(report.cached_tokens) /
                                 static_cast<double>(report.prompt_tokens)
                           : 0;
  return absl::StrCat(report.cached_tokens, " of ", report.prompt_tokens,
                      " prompt tokens (", Percent(share), ")");
}

std::string AcceptanceText(const Report& report) {
  const v1::Speculation& of = report.speculation;
  if (of.rounds() == 0) return "-";
  return absl::StrFormat("%.2f (%d drafts accepted in %d rounds)",
                         report.mean_accepted_tokens(), of.accepted_drafts(),
                         of.rounds());
}

// What was chosen, and of how many nodes. Empty if the server does not tell.
std::string BudgetText(const Report& report) {
  const std::string chosen = ChosenText(report.speculation);
  if (chosen.empty()) return "";
  return absl::StrFormat(
      "%s; %.1f nodes a request and round", chosen,
      static_cast<double>(report.speculation.selected_nodes()) /
          report.speculation.rounds());
}

std::string Overview(const Report& report) {
  std::vector<TableRow> rows = {
      {"requests", CountsText(report)},
      {"duration", FixedPoint(report.duration, 2) + " s"},
      {"throughput",
       absl::StrFormat(
           "%.2f requests/s, %.1f output tokens/s, %.1f prompt tokens/s",
           report.request_rate(), report.output_token_rate(),
           report.prompt_token_rate())},
      {"goodput",
       absl::StrFormat("%.2f requests/s, %s of all (bounds: %s)",
                       report.goodput(), Percent(report.attainment()),
                       SloText(report.slo))},
      {"mean accepted tokens", AcceptanceText(report)},
      {"cached tokens", CachedText(report)},
  };
  std::string budget = BudgetText(report);
  if (!budget.empty()) rows.push_back({"speculation", std::move(budget)});
  return FormatTable(rows);
}

std::string LatencyTable(const Report& report) {
  std::string table =
      absl::StrFormat("%-22s%10s%10s%10s%10s%10s%10s%10s\n", "milliseconds",
                      "mean", "p50", "p90", "p95", "p99", "max", "samples");
  for (const Metric& metric : LatencyMetrics(report)) {
    const Distribution& of = *metric.distribution;
    absl::StrAppendFormat(&table, "%-22s", metric.name);
    for (const double seconds :
         {of.mean(), of.Percentile(50), of.Percentile(90), of.Percentile(95),
          of.Percentile(99), of.max()}) {
      absl::StrAppendFormat(&table, "%10.2f", 1000 * seconds);
    }
    absl::StrAppendFormat(&table, "%10d\n", of.count());
  }
  return table;
}

}  // namespace

std::string FormatReport(const Report& report) {
  std::string text = absl::StrCat(Overview(report), "\n", LatencyTable(report));
  if (!report.failures.empty()) text += "\nnot ended well\n";
  for (const auto& [reason, count] : report.failures) {
    absl::StrAppendFormat(&text, "%10d  %s\n", count, reason);
  }
  if (ClientWasLate(report)) {
    absl::StrAppend(
        &text, "\nThe client sent late (p99 ",
        FixedPoint(1000 * report.lag.Percentile(99), 1),
        " ms): it was short of processor time, or --max-in-flight held it "
        "back.\nGive it a machine of its own, or a lower rate, before the "
        "server is judged.\n");
  }
  return text;
}

std::string FormatServerComparison(std::span<const MetricPair> pairs,
                                   double round_trip_seconds) {
  std::string table =
      absl::StrFormat("%-22s%14s%14s\n", "", "client", "server");
  for (const MetricPair& pair : pairs) {
    const char* verdict = pair.agrees ? "" : "  differs";
    if (pair.is_count) {
      absl::StrAppendFormat(&table, "%-22s%14.0f%14.0f%s\n", pair.name,
                            pair.client, pair.server, verdict);
    } else {
      absl::StrAppendFormat(&table, "%-22s%11.2f ms%11.2f ms%s\n", pair.name,
                            1000 * pair.client, 1000 * pair.server, verdict);
    }
  }
  absl::StrAppendFormat(
      &table,
      "Latencies count from sending here. Counts should be equal, means within "
      "5 %%\nand a round trip (%.2f ms), if nobody else used the server.\n",
      1000 * round_trip_seconds);
  return table;
}

std::string FormatProgress(const Progress& before, const Progress& now) {
  const double seconds = now.seconds - before.seconds;
  const double rate =
      seconds > 0 ? static_cast<double>(now.tokens - before.tokens) / seconds
                  : 0;
  return absl::StrFormat(
      "%.1f s  %d ended, %d failed  %d in flight, %d streaming  %.0f tokens/s",
      now.seconds, now.num_ended, now.num_failed, now.in_flight, now.streaming,
      rate);
}

}  // namespace bole::bench
