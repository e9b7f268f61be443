#include "clients/tune/tuning_report.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/chart.h"

namespace bole::tune {
namespace {

using nlohmann::ordered_json;

std::string TableText(const TuningReport& report, const TuningTable& table) {
  std::string text = absl::StrCat(table.acceptance, "\n");
  absl::StrAppendFormat(&text, "%8s", "requests");
  for (const Setting& setting : report.settings) {
    absl::StrAppendFormat(&text, "%10s ", NameOf(setting));
  }
  text += "\n";
  for (const LoadRow& load : table.loads) {
    absl::StrAppendFormat(&text, "%8d", load.requests);
    for (size_t i = 0; i < report.settings.size(); ++i) {
      const auto& rate = load.tokens_per_second[i];
      const std::string number = rate ? absl::StrFormat("%.0f", *rate) : "-";
      absl::StrAppendFormat(&text, "%10s%s", number,
                            i == load.best ? "*" : " ");
    }
    text += "\n";
  }
  return text;
}

std::string SpeedUpText(const LoadRow& load) {
  return absl::StrFormat("%.2f at %d", load.SpeedUp(load.best), load.requests);
}

// Neighbours with the same best setting are one line.
std::string AdviceText(const TuningReport& report, const TuningTable& table) {
  std::string text = absl::StrCat("  ", table.acceptance, "\n");
  const std::vector<LoadRow>& loads = table.loads;
  for (size_t first = 0; first < loads.size();) {
    size_t last = first;
    while (last + 1 < loads.size() &&
           loads[last + 1].best == loads[first].best) {
      ++last;
    }
    std::string who = absl::StrCat(loads[first].requests);
    if (last > first) absl::StrAppend(&who, " to ", loads[last].requests);
    absl::StrAppendFormat(&text, "    %-9s requests  %-52s", who,
                          FlagsOf(report.settings[loads[first].best]));
    if (loads[first].best != 0) {
      absl::StrAppend(&text, "  times plain: ", SpeedUpText(loads[first]));
      if (last > first) absl::StrAppend(&text, ", ", SpeedUpText(loads[last]));
    }
    while (text.back() == ' ') text.pop_back();
    text += "\n";
    first = last + 1;
  }
  return text;
}

}  // namespace

std::string TuningText(const TuningReport& report) {
  std::string text = absl::StrCat(
      report.machine,
      "\nTokens per second of all requests together, each with ",
      report.options.context,
      " tokens of context.\n* is the fastest; - would verify more than ",
      report.options.max_rows, " nodes in a round.\n");
  for (const TuningTable& table : report.tables) {
    absl::StrAppend(&text, "\n", TableText(report, table));
  }
  absl::StrAppend(&text,
                  "\nWhat to set\n  bole-scheduler --policy goodput finds the "
                  "fastest by itself, round by round, if\n  the worker has its "
                  "--cost-table. For one kind of load, --policy fixed and:\n");
  for (const TuningTable& table : report.tables) {
    text += AdviceText(report, table);
  }
  return text;
}

std::string TuningSvg(const TuningReport& report) {
  std::vector<Chart> charts;
  for (const TuningTable& table : report.tables) {
    Chart chart{.title = table.acceptance,
                .x_label = "requests at once",
                .y_label = "times plain decoding",
                .log_x = true,
                .series = {}};
    for (size_t i = 0; i < report.settings.size(); ++i) {
      Series series{.name = NameOf(report.settings[i]), .points = {}};
      for (const LoadRow& load : table.loads) {
        if (!load.tokens_per_second[i]) continue;
        series.points.push_back(
            {static_cast<double>(load.requests), load.SpeedUp(i)});
      }
      chart.series.push_back(std::move(series));
    }
    charts.push_back(std::move(chart));
  }
  return DrawCharts(absl::StrCat("bole tune: ", report.machine), charts);
}

ordered_json TuningJson(const TuningReport& report) {
  ordered_json json = {{"machine", report.machine},
                       {"context", report.options.context},
                       {"lease_rounds", report.options.lease_rounds},
                       {"max_nodes", report.options.max_rows},
                       {"tables", ordered_json::array()}};
  for (const TuningTable& table : report.tables) {
    ordered_json loads = ordered_json::array();
    for (const LoadRow& load : table.loads) {
      ordered_json rates = ordered_json::object();
      for (size_t i = 0; i < report.settings.size(); ++i) {
        const auto& rate = load.tokens_per_second[i];
        rates[NameOf(report.settings[i])] =
            rate ? ordered_json(*rate) : ordered_json(nullptr);
      }
      loads.push_back({{"requests", load.requests},
                       {"best", NameOf(report.settings[load.best])},
                       {"flags", FlagsOf(report.settings[load.best])},
                       {"tokens_per_second", std::move(rates)}});
    }
    json["tables"].push_back(
        {{"acceptance", table.acceptance}, {"loads", std::move(loads)}});
  }
  return json;
}

}  // namespace bole::tune
