// bole tune: which setting serves which load best, by a table of costs.
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "clients/cli/commands.h"
#include "clients/cli/failure.h"
#include "clients/tune/acceptance_profile.h"
#include "clients/tune/tuning.h"
#include "clients/tune/tuning_report.h"
#include "common/command_line.h"
#include "common/cost_table.h"
#include "common/draft_shape.h"
#include "common/status_macros.h"

namespace bole {
namespace {

struct Flags {
  std::string table;
  std::vector<double> acceptance = {1.2, 3, 6.9};
  std::optional<std::string> profile;
  DraftShape tree;
  tune::LoadOptions load;
  std::optional<std::string> svg;
  bool json = false;
};

absl::StatusOr<std::vector<tune::AcceptanceProfile>> Profiles(
    const Flags& flags) {
  std::vector<tune::AcceptanceProfile> profiles;
  if (flags.profile) {
    BOLE_ASSIGN_OR_RETURN(tune::AcceptanceProfile profile,
                          tune::LoadProfile(*flags.profile));
    profiles.push_back(std::move(profile));
    return profiles;
  }
  for (const double mean : flags.acceptance) {
    absl::StatusOr<tune::AcceptanceProfile> profile =
        tune::ProfileOfMean(mean, tune::MeasuredTree());
    if (!profile.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--acceptance: ", profile.status().message()));
    }
    profiles.push_back(*std::move(profile));
  }
  return profiles;
}

absl::StatusOr<tune::TuningReport> MakeReport(const Flags& flags) {
  for (const int requests : flags.load.requests) {
    if (requests >= 1 && requests <= flags.load.max_rows) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--requests: ", requests, " is not in [1, ",
                     flags.load.max_rows, "], the nodes of a round"));
  }
  BOLE_ASSIGN_OR_RETURN(const CostTable table, LoadCostTable(flags.table));
  BOLE_ASSIGN_OR_RETURN(const std::vector<tune::AcceptanceProfile> profiles,
                        Profiles(flags));
  tune::TuningReport report{
      .machine = absl::StrCat(table.of.model, " on ", table.of.device),
      .options = flags.load,
      .settings = tune::UsualSettings(flags.tree),
      .tables = {}};
  for (const tune::AcceptanceProfile& profile : profiles) {
    report.tables.push_back(
        {profile.name,
         tune::RateLoads(table, report.settings, profile.chances, flags.load)});
  }
  return report;
}

int Run(const Flags& flags) {
  const absl::StatusOr<tune::TuningReport> report = MakeReport(flags);
  if (!report.ok()) {
    const absl::string_view message = report.status().message();
    return UsageError(std::string(message.data(), message.size()));
  }
  const std::string text = flags.json ? tune::TuningJson(*report).dump() + "\n"
                                      : tune::TuningText(*report);
  std::fputs(text.c_str(), stdout);
  if (!flags.svg) return kExitOk;
  std::ofstream file(*flags.svg, std::ios::binary);
  file << tune::TuningSvg(*report);
  file.close();
  if (file) return kExitOk;
  std::fprintf(stderr, "bole: cannot write %s\n", flags.svg->c_str());
  return kExitError;
}

}  // namespace

Command AddTuneCommand(CommandLine& app) {
  auto flags = std::make_shared<Flags>();
  CommandLine& command = app.AddCommand(
      "tune",
      "Which setting serves which load best on a worker, by its table of "
      "costs. Asks no server.");
  command.Add("TABLE", flags->table, "the file that bole-calibrate wrote")
      .Required();
  const Flag acceptance =
      command.Add("--acceptance", flags->acceptance,
                  "mean accepted tokens a round of trees of 64 nodes, top-k 4 "
                  "and depth 8: a table for each");
  command
      .Add("--profile", flags->profile,
           "a file with what was accepted, in place of means; see "
           "clients/README.md")
      .Excludes(acceptance);
  command.Add("--top-k", flags->tree.top_k, "children of a tree's node")
      .Range(2, kMaxDraftTopK);
  command.Add("--depth", flags->tree.depth, "levels of a tree")
      .Range(1, kMaxDraftDepth);
  command.Add("--requests", flags->load.requests, "how many run at once");
  command.Add("--context", flags->load.context, "tokens of each request")
      .NonNegative();
  command
      .Add("--lease-rounds", flags->load.lease_rounds,
           "rounds that share the way between the services")
      .Positive();
  command
      .Add("--max-nodes", flags->load.max_rows,
           "nodes that a round verifies at most, of all requests together")
      .Positive();
  command.Add("--svg", flags->svg, "draw the tables");
  command.AddSwitch("--json", flags->json, "print them as JSON");
  return [flags] { return Run(*flags); };
}

}  // namespace bole
