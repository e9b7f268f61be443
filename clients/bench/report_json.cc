#include "clients/bench/report_json.h"

#include <string>
#include <utility>

#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "proto/bole.pb.h"

namespace bole::bench {
namespace {

using nlohmann::ordered_json;

ordered_json Latency(const Distribution& of) {
  return {{"count", of.count()},      {"mean", of.mean()},
          {"p50", of.Percentile(50)}, {"p90", of.Percentile(90)},
          {"p95", of.Percentile(95)}, {"p99", of.Percentile(99)},
          {"max", of.max()},          {"sum", of.sum()}};
}

// A missing value becomes JSON null.
ordered_json Optional(std::optional<double> value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json Row(const RequestRecord& record) {
  std::optional<double> ttft = FirstTokenTime(record);
  if (ttft) *ttft -= record.scheduled;
  std::optional<double> e2e;
  if (record.status.ok()) e2e = record.end - record.scheduled;
  return {{"instance", record.instance},
          {"turn", record.turn},
          {"status", absl::StatusCodeToString(record.status.code())},
          {"reason", record.reason},
          {"scheduled", record.scheduled},
          {"sent", record.sent},
          {"end", record.end},
          {"ttft", Optional(ttft)},
          {"tpot", Optional(TimePerOutputToken(record))},
          {"e2e", Optional(e2e)},
          {"prompt_tokens", record.prompt_tokens},
          {"cached_tokens", record.cached_tokens},
          {"output_tokens", OutputTokens(record)},
          {"output_sha256", record.output_sha256},
          {"rounds", record.speculation.rounds()},
          {"accepted_drafts", record.speculation.accepted_drafts()},
          {"retries", record.retries},
          {"resumes", record.resumes}};
}

ordered_json Rates(const Report& report) {
  return {{"duration_seconds", report.duration},
          {"requests_per_second", report.request_rate()},
          {"output_tokens_per_second", report.output_token_rate()},
          {"prompt_tokens_per_second", report.prompt_token_rate()},
          {"good_requests_per_second", report.goodput()},
          {"attainment", report.attainment()},
          {"mean_accepted_tokens", report.mean_accepted_tokens()}};
}

ordered_json Counts(const Report& report) {
  return {{"requests", report.num_requests},
          {"succeeded", report.num_succeeded},
          {"refused", report.num_refused},
          {"failed", report.num_failed},
          {"good", report.num_good},
          {"dropped", report.num_dropped},
          {"retries", report.num_retries},
          {"resumes", report.num_resumes},
          {"prompt_tokens", report.prompt_tokens},
          {"cached_tokens", report.cached_tokens},
          {"output_tokens", report.output_tokens},
          {"rounds", report.speculation.rounds()},
          {"accepted_drafts", report.speculation.accepted_drafts()}};
}

// The prefix of the enumerators' names in the protocol.
constexpr char kReasonPrefix[] = "SPECULATION_OFF_REASON_";

ordered_json Speculation(const Report& report) {
  const v1::Speculation& of = report.speculation;
  ordered_json reasons = ordered_json::object();
  for (const auto& [reason, rounds] : report.off_reasons) {
    const std::string& name = v1::SpeculationOffReason_Name(reason);
    reasons[std::string(absl::StripPrefix(name, kReasonPrefix))] = rounds;
  }
  return {{"off_rounds", of.off_rounds()},
          {"chain_rounds", of.chain_rounds()},
          {"tree_rounds", of.tree_rounds()},
          {"selected_nodes", of.selected_nodes()},
          {"promised_drafts", of.promised_tokens()},
          {"off_reasons", std::move(reasons)}};
}

}  // namespace

ordered_json ReportJson(const RunDescription& run, const Report& report,
                        std::span<const MetricPair> server,
                        std::span<const RequestRecord> records) {
  ordered_json json;
  json["bole_bench"] = 1;
  json["run"] = ordered_json::object();
  for (const auto& [name, value] : run) json["run"][name] = value;
  json["run"]["slo"] = SloText(report.slo);
  json["counts"] = Counts(report);
  json["speculation"] = Speculation(report);
  json["failures"] = report.failures;
  json["rates"] = Rates(report);
  for (const Metric& metric : LatencyMetrics(report)) {
    json["latencies"][metric.key] = Latency(*metric.distribution);
  }
  json["server"] = ordered_json::array();
  for (const MetricPair& pair : server) {
    json["server"].push_back({{"name", pair.name},
                              {"client", pair.client},
                              {"server", pair.server},
                              {"agrees", pair.agrees}});
  }
  json["requests"] = ordered_json::array();
  for (const RequestRecord& record : records) {
    json["requests"].push_back(Row(record));
  }
  return json;
}

}  // namespace bole::bench
