// bole bench compare: two reports beside each other.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "clients/bench/compare.h"
#include "clients/cli/commands.h"
#include "clients/cli/failure.h"
#include "common/command_line.h"

namespace bole {
namespace {

struct Flags {
  std::string a;
  std::string b;
  std::optional<double> fail_above;  // In per cent.
};

int Run(const Flags& flags) {
  const auto a = bench::ReadReport(flags.a);
  const auto b = bench::ReadReport(flags.b);
  for (const auto* report : {&a, &b}) {
    if (report->ok()) continue;
    const absl::string_view message = report->status().message();
    return UsageError(std::string(message.data(), message.size()));
  }
  const bench::Comparison comparison = bench::CompareReports(*a, *b);
  std::optional<double> share;
  if (flags.fail_above) share = *flags.fail_above / 100;
  std::fputs(bench::FormatComparison(comparison, share).c_str(), stdout);
  const bool worse =
      share && std::any_of(comparison.metrics.begin(), comparison.metrics.end(),
                           [&](const bench::ComparedMetric& metric) {
                             return metric.IsRegression(*share);
                           });
  return worse ? kExitError : kExitOk;
}

}  // namespace

Command AddBenchCompareCommand(CommandLine& bench) {
  auto flags = std::make_shared<Flags>();
  CommandLine& command = bench.AddCommand(
      "compare", "Two reports of `bole bench --out` beside each other.");
  command.Add("A", flags->a, "report of the run before").Required();
  command.Add("B", flags->b, "report of the run after").Required();
  command
      .Add("--fail-above", flags->fail_above,
           "exit with 1 if a number is worse by more per cent than this, and "
           "the requests of both runs leave no doubt")
      .NonNegative();
  return [flags] { return Run(*flags); };
}

}  // namespace bole
