#include "clients/bench/report.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace bole::bench {
namespace {

// Time between messages over the tokens of the later one, once for each of its
// tokens. What came with the first token took no time of its own.
void AppendInterTokenLatencies(const RequestRecord& record,
                               std::vector<double>& samples) {
  for (size_t i = 0; i < record.arrivals.size(); ++i) {
    const TokenArrival& arrival = record.arrivals[i];
    if (i == 0) {
      samples.insert(samples.end(), static_cast<size_t>(arrival.tokens - 1), 0);
      continue;
    }
    const double gap = arrival.seconds - record.arrivals[i - 1].seconds;
    samples.insert(samples.end(), static_cast<size_t>(arrival.tokens),
                   gap / arrival.tokens);
  }
}

struct Samples {
  std::vector<double> ttft, e2e, sent_ttft, sent_e2e, tpot, itl, lag;
};

void AddLatencies(const RequestRecord& record, Samples& samples) {
  if (record.retries == 0) {
    samples.lag.push_back(record.sent - record.scheduled);
  }
  if (const std::optional<double> first = FirstTokenTime(record)) {
    samples.ttft.push_back(*first - record.scheduled);
    samples.sent_ttft.push_back(*first - record.sent);
    AppendInterTokenLatencies(record, samples.itl);
  }
  if (!record.status.ok()) return;
  samples.e2e.push_back(record.end - record.scheduled);
  samples.sent_e2e.push_back(record.end - record.sent);
  if (const auto tpot = TimePerOutputToken(record)) {
    samples.tpot.push_back(*tpot);
  }
}

void AddSpeculation(const v1::Speculation& one, Report& report) {
  v1::Speculation& all = report.speculation;
  all.set_rounds(all.rounds() + one.rounds());
  all.set_accepted_drafts(all.accepted_drafts() + one.accepted_drafts());
  all.set_off_rounds(all.off_rounds() + one.off_rounds());
  all.set_chain_rounds(all.chain_rounds() + one.chain_rounds());
  all.set_tree_rounds(all.tree_rounds() + one.tree_rounds());
  all.set_selected_nodes(all.selected_nodes() + one.selected_nodes());
  all.set_promised_tokens(all.promised_tokens() + one.promised_tokens());
  if (one.off_rounds() == 0) return;
  report.off_reasons[one.off_reason()] += one.off_rounds();
  const auto most = std::max_element(
      report.off_reasons.begin(), report.off_reasons.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  all.set_off_reason(most->first);
}

void AddCounts(const RequestRecord& record, Report& report) {
  ++report.num_requests;
  report.num_retries += record.retries;
  report.num_resumes += record.resumes;
  report.num_good += Meets(record, report.slo) ? 1 : 0;
  report.output_tokens += OutputTokens(record);
  if (record.status.ok()) {
    ++report.num_succeeded;
    report.prompt_tokens += record.prompt_tokens;
    report.cached_tokens += record.cached_tokens;
    AddSpeculation(record.speculation, report);
    return;
  }
  ++(IsRefusal(record) ? report.num_refused : report.num_failed);
  ++report.failures[FailureReason(record)];
}

double Rate(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : 0;
}

}  // namespace

const char* Definitions() {
  return
      R"(Every latency counts from the scheduled arrival of its request, sent or not: a
late client or a full server makes it longer and cannot hide.
  time to first token  until the message with the first token; requests with one
  time per token       (end - first token) / (tokens - 1) of one request that
                       ended well with at least two tokens
  inter-token latency  time between two messages over the tokens of the later
                       one, once for each of its tokens; 0 for tokens that came
                       together with the first one. The server's
                       bole_inter_token_latency_seconds is the same over rounds
  end to end           until the status of a request that ended well
  client lag           from the scheduled arrival to sending; the client's own
  duration             from the first scheduled arrival to the last end
  goodput              requests per second that ended well within every bound
                       of --slo; attainment is their share of all requests,
                       refused ones included
  mean accepted tokens 1 + accepted drafts / rounds: tokens of one verification
                       of one request, the model's own token included
  cached tokens        prompt tokens that the server did not compute again
  refused              RESOURCE_EXHAUSTED or UNAVAILABLE before any token
Percentiles are exact: the least sample that so many per cent do not exceed.)";
}

Report MakeReport(std::span<const RequestRecord> records, const Slo& slo,
                  int num_dropped) {
  Report report;
  report.slo = slo;
  report.num_dropped = num_dropped;
  Samples samples;
  double start = std::numeric_limits<double>::infinity();
  double end = 0;
  for (const RequestRecord& record : records) {
    AddCounts(record, report);
    AddLatencies(record, samples);
    start = std::min(start, record.scheduled);
    end = std::max(end, record.end);
  }
  report.duration = records.empty() ? 0 : end - start;
  report.ttft = Distribution(std::move(samples.ttft));
  report.e2e = Distribution(std::move(samples.e2e));
  report.sent_ttft = Distribution(std::move(samples.sent_ttft));
  report.sent_e2e = Distribution(std::move(samples.sent_e2e));
  report.tpot = Distribution(std::move(samples.tpot));
  report.itl = Distribution(std::move(samples.itl));
  report.lag = Distribution(std::move(samples.lag));
  return report;
}

double Report::request_rate() const { return Rate(num_succeeded, duration); }

double Report::output_token_rate() const {
  return Rate(static_cast<double>(output_tokens), duration);
}

double Report::prompt_token_rate() const {
  return Rate(static_cast<double>(prompt_tokens), duration);
}

double Report::goodput() const { return Rate(num_good, duration); }

double Report::attainment() const { return Rate(num_good, num_requests); }

double Report::mean_accepted_tokens() const {
  if (speculation.rounds() == 0) return 0;
  return 1 + static_cast<double>(speculation.accepted_drafts()) /
                 speculation.rounds();
}

bool ClientWasLate(const Report& report) {
  constexpr double kUnnoticed = 0.01;
  const double late = report.lag.Percentile(99);
  return late > kUnnoticed && late > report.ttft.Percentile(50) / 10;
}

std::vector<Metric> LatencyMetrics(const Report& report) {
  return {{"ttft", "time to first token", &report.ttft},
          {"tpot", "time per token", &report.tpot},
          {"itl", "inter-token latency", &report.itl},
          {"e2e", "end to end", &report.e2e},
          {"lag", "client lag", &report.lag}};
}

}  // namespace bole::bench
