#include "clients/rounds/round_report.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/chart.h"

namespace bole {
namespace {

using Value = std::function<double(const FlightRound&)>;

struct Phase {
  const char* name;
  Value seconds;
};

Value Field(std::string name) {
  return [name = std::move(name)](const FlightRound& round) {
    return round.number(name);
  };
}

bool IsWorker(const RoundFile& file) { return file.service == "bole-worker"; }

// The phases of a round, in the order in which they run.
std::vector<Phase> PhasesOf(const RoundFile& file) {
  if (IsWorker(file)) {
    return {{"queue", Field("queue_seconds")},
            {"validate", Field("validate_seconds")},
            {"engine", Field("engine_seconds")}};
  }
  // The host's time includes the plan's.
  const auto rest = [](const FlightRound& round) {
    return std::max(round.number("host_seconds") - round.number("plan_seconds"),
                    0.0);
  };
  const auto wire = [](const FlightRound& round) {
    return std::max(
        round.number("round_seconds") - round.number("engine_seconds"), 0.0);
  };
  return {{"host", rest},
          {"plan", Field("plan_seconds")},
          {"wire", wire},
          {"engine", Field("engine_seconds")},
          {"apply", Field("apply_seconds")}};
}

double Milliseconds(double seconds) { return 1000 * seconds; }

double Sum(const RoundFile& file, const Value& value) {
  double sum = 0;
  for (const FlightRound& round : file.rounds) sum += value(round);
  return sum;
}

double Percentile(const RoundFile& file, const Value& value, double share) {
  std::vector<double> values;
  for (const FlightRound& round : file.rounds) values.push_back(value(round));
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share *
                                    static_cast<double>(values.size() - 1))];
}

Value TotalOf(std::vector<Phase> phases) {
  return [phases = std::move(phases)](const FlightRound& round) {
    double total = 0;
    for (const Phase& phase : phases) total += phase.seconds(round);
    return total;
  };
}

std::string NameOfRound(const RoundFile& file, const FlightRound& round) {
  return absl::StrFormat(
      "%s %.0f, plan %.0f, round %.0f: %s, %.0f sequences, %.0f nodes, %.0f "
      "prefill tokens",
      IsWorker(file) ? "stream" : "worker",
      round.number(IsWorker(file) ? "stream" : "worker"), round.number("plan"),
      round.number("round"), round.word("outcome"), round.number("sequences"),
      round.number("nodes"), round.number("prefill_tokens"));
}

std::string OutcomesOf(const RoundFile& file) {
  std::map<std::string, int> counts;
  for (const FlightRound& round : file.rounds) ++counts[round.word("outcome")];
  std::vector<std::string> parts;
  parts.reserve(counts.size());
  for (const auto& [outcome, count] : counts) {
    parts.push_back(absl::StrCat(count, " ", outcome));
  }
  return absl::StrJoin(parts, ", ");
}

Series SeriesOf(const RoundFile& file, std::string name, const Value& value) {
  Series series{.name = std::move(name), .points = {}};
  for (size_t i = 0; i < file.rounds.size(); ++i) {
    series.points.push_back({static_cast<double>(i), value(file.rounds[i])});
  }
  return series;
}

Chart TimesOf(const RoundFile& file) {
  Chart chart{.title = "Phases",
              .x_label = "round",
              .y_label = "ms",
              .stacked = true,
              .series = {}};
  for (const Phase& phase : PhasesOf(file)) {
    chart.series.push_back(
        SeriesOf(file, phase.name, [&](const FlightRound& round) {
          return Milliseconds(phase.seconds(round));
        }));
  }
  return chart;
}

// A chart with one line per field, over the rounds.
Chart CountsOf(const RoundFile& file, const std::string& title,
               const std::vector<std::string>& fields) {
  Chart chart{
      .title = title, .x_label = "round", .y_label = "count", .series = {}};
  for (const std::string& field : fields) {
    chart.series.push_back(SeriesOf(file, field, Field(field)));
  }
  return chart;
}

}  // namespace

std::string RoundSummary(const RoundFile& file) {
  std::string text = absl::StrFormat(
      "%s %s, written for reason \"%s\": %d rounds", file.service, file.version,
      file.reason, file.rounds.size());
  if (file.rounds.empty()) return text + "\n";
  const double span = file.written_at - file.rounds.front().number("at");
  absl::StrAppendFormat(&text, " of the last %.3f s (%s)\n", span,
                        OutcomesOf(file));
  absl::StrAppendFormat(&text, "%-10s %12s %12s %12s %8s\n", "phase", "p50 ms",
                        "p99 ms", "max ms", "share");
  const std::vector<Phase> phases = PhasesOf(file);
  const Value total = TotalOf(phases);
  const double all = Sum(file, total);
  for (const Phase& phase : phases) {
    absl::StrAppendFormat(&text, "%-10s %12.3f %12.3f %12.3f %7.1f%%\n",
                          phase.name,
                          Milliseconds(Percentile(file, phase.seconds, 0.5)),
                          Milliseconds(Percentile(file, phase.seconds, 0.99)),
                          Milliseconds(Percentile(file, phase.seconds, 1)),
                          all > 0 ? 100 * Sum(file, phase.seconds) / all : 0);
  }
  absl::StrAppendFormat(
      &text, "%.0f tokens emitted, %.0f of them accepted drafts; %.0f nodes",
      Sum(file, Field("emitted")), Sum(file, Field("accepted")),
      Sum(file, Field("nodes")));
  if (!IsWorker(file)) {
    absl::StrAppendFormat(
        &text, " of a budget of %.0f; %.1f drafts were promised",
        Sum(file, Field("budget")), Sum(file, Field("promised")));
  }
  const auto longest =
      std::max_element(file.rounds.begin(), file.rounds.end(),
                       [&](const FlightRound& a, const FlightRound& b) {
                         return total(a) < total(b);
                       });
  absl::StrAppendFormat(&text, "\nlongest, %.3f ms: %s\nlast: %s\n",
                        Milliseconds(total(*longest)),
                        NameOfRound(file, *longest),
                        NameOfRound(file, file.rounds.back()));
  return text;
}

std::string RoundSvg(const RoundFile& file) {
  std::vector<Chart> charts = {TimesOf(file)};
  if (IsWorker(file)) {
    charts.push_back(
        CountsOf(file, "Nodes and prefill", {"nodes", "prefill_tokens"}));
    charts.push_back(
        CountsOf(file, "Requests", {"sequences", "prefills", "waiting"}));
  } else {
    charts.push_back(CountsOf(file, "Budget against selected nodes",
                              {"budget", "nodes", "prefill_tokens"}));
    charts.push_back(
        CountsOf(file, "Requests", {"running", "sequences", "prefills"}));
  }
  charts.push_back(CountsOf(file, "Tokens", {"emitted", "accepted"}));
  return DrawCharts(absl::StrCat(file.service, " ", file.version, ", ",
                                 file.rounds.size(), " rounds"),
                    charts);
}

}  // namespace bole
