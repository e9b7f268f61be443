#include "clients/tune/tuning.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/step_costs.h"

namespace bole::tune {
namespace {

bool IsChain(const Setting& setting) { return setting.draft->top_k == 1; }

RoundQuantities QuantitiesOf(const Setting& setting, int requests,
                             int context) {
  RoundQuantities quantities{};
  const auto set = [&](Quantity quantity, double value) {
    quantities[static_cast<size_t>(quantity)] = value;
  };
  const double rows = static_cast<double>(requests) * setting.nodes;
  set(Quantity::kRows, rows);
  set(Quantity::kForwardRows, rows);
  set(Quantity::kRequests, requests);
  set(Quantity::kKvTokens, static_cast<double>(requests) * context);
  if (!setting.draft) return quantities;
  set(Quantity::kDraftRows, rows - requests);
  set(Quantity::kDraftTopK, setting.draft->top_k);
  set(Quantity::kDraftDepth, setting.draft->depth);
  return quantities;
}

// Accepted drafts and the model's own token.
double TokensOfRound(const Setting& setting, const RankChances& chances) {
  if (!setting.draft) return 1;
  return 1 + ExpectedDrafts(chances, *setting.draft)[setting.nodes - 1];
}

}  // namespace

std::string NameOf(const Setting& setting) {
  if (!setting.draft) return "plain";
  return IsChain(setting) ? absl::StrCat("chain ", setting.draft->depth)
                          : absl::StrCat("tree ", setting.nodes);
}

std::string FlagsOf(const Setting& setting) {
  if (!setting.draft) return "--speculation off";
  if (IsChain(setting)) {
    return absl::StrCat("--speculation chain --depth ", setting.draft->depth);
  }
  return absl::StrCat("--speculation tree --top-k ", setting.draft->top_k,
                      " --depth ", setting.draft->depth, " --nodes ",
                      setting.nodes);
}

std::vector<Setting> UsualSettings(const DraftShape& tree) {
  std::vector<Setting> settings = {Setting()};
  for (const int depth : {3, 5, 8}) {
    settings.push_back(
        {.draft = DraftShape{.top_k = 1, .depth = depth}, .nodes = depth + 1});
  }
  for (const int nodes : {8, 16, 32, 64, 128}) {
    if (nodes > tree.num_candidates() + 1) break;
    settings.push_back({.draft = tree, .nodes = nodes});
  }
  return settings;
}

double LoadRow::SpeedUp(size_t setting) const {
  return *tokens_per_second[setting] / *tokens_per_second[0];
}

std::vector<LoadRow> RateLoads(const CostTable& table,
                               const std::vector<Setting>& settings,
                               const RankChances& chances,
                               const LoadOptions& options) {
  std::vector<double> tokens;
  tokens.reserve(settings.size());
  for (const Setting& setting : settings) {
    tokens.push_back(TokensOfRound(setting, chances));
  }
  std::vector<LoadRow> rows;
  for (const int requests : options.requests) {
    LoadRow row{.requests = requests, .tokens_per_second = {}};
    for (size_t i = 0; i < settings.size(); ++i) {
      row.tokens_per_second.emplace_back();
      if (int64_t{requests} * settings[i].nodes > options.max_rows) continue;
      const std::chrono::duration<double> step = table.costs.TimeOf(
          QuantitiesOf(settings[i], requests, options.context));
      const double seconds =
          step.count() + table.round_trip_seconds / options.lease_rounds;
      row.tokens_per_second[i] = requests * tokens[i] / seconds;
      if (row.tokens_per_second[i] > row.tokens_per_second[row.best]) {
        row.best = i;
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace bole::tune
