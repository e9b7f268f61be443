// bole bench compare: two reports beside each other.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "clients/bench/compare.h"
#include "clients/cli/commands.h"
#include "clients/cli/failure.h"

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

Command AddBenchCompareCommand(CLI::App& bench) {
  auto flags = std::make_shared<Flags>();
  CLI::App& command = *bench.add_subcommand(
      "compare", "Two reports of `bole bench --out` beside each other.");
  command.add_option("A", flags->a, "report of the run before")->required();
  command.add_option("B", flags->b, "report of the run after")->required();
  command
      .add_option("--fail-above", flags->fail_above,
                  "exit with 1 if a number is worse by more per cent than "
                  "this, and the requests of both runs leave no doubt")
      ->check(CLI::NonNegativeNumber);
  command.footer(kExitCodesHelp);
  return [flags] { return Run(*flags); };
}

}  // namespace bole
