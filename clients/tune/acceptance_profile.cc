#include "clients/tune/acceptance_profile.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "common/tokenizer/read_file.h"
#include "nlohmann/json.hpp"

namespace bole::tune {
namespace {

using nlohmann::json;

constexpr size_t kMaxBytes = 16 << 20;
constexpr int kMaxNesting = 8;

absl::Status Bad(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

absl::StatusOr<RankChances> ParseChances(const json& accept) {
  RankChances chances;
  const bool is_table = accept.is_array() && !accept.empty() &&
                        accept.size() <= size_t{kMaxDraftDepth};
  if (!is_table) {
    return Bad(
        absl::StrCat("accept is no array of 1 to ", kMaxDraftDepth, " depths"));
  }
  for (const json& ranks : accept) {
    double sum = 0;
    chances.emplace_back();
    for (const json& chance : ranks) {
      if (!chance.is_number() || chance.get<double>() < 0) {
        return Bad(absl::StrCat("accept has ", chance.dump(),
                                ", which is no probability"));
      }
      sum += chance.get<double>();
      chances.back().push_back(chance.get<double>());
    }
    constexpr double kRounded = 1e-6;
    if (!ranks.is_array() || ranks.empty() || sum > 1 + kRounded) {
      return Bad(absl::StrCat("accept has ", ranks.dump(),
                              ", which are no probabilities of ranks"));
    }
  }
  return chances;
}

// A member that is a number from 1 to `max`.
absl::StatusOr<int> ParseNumber(const json& object, const char* name, int max) {
  if (object.is_object() && object.contains(name)) {
    const json& value = object[name];
    if (value.is_number_integer() && value.get<int64_t>() >= 1 &&
        value.get<int64_t>() <= max) {
      return value.get<int>();
    }
  }
  return Bad(absl::StrCat("tree has no ", name, " from 1 to ", max));
}

absl::StatusOr<AcceptanceProfile> ParseMeasured(const json& document) {
  MeasuredTree of;
  const json tree = document.value("tree", json());
  BOLE_ASSIGN_OR_RETURN(of.shape.top_k,
                        ParseNumber(tree, "top_k", kMaxDraftTopK));
  BOLE_ASSIGN_OR_RETURN(of.shape.depth,
                        ParseNumber(tree, "depth", kMaxDraftDepth));
  BOLE_ASSIGN_OR_RETURN(
      of.nodes, ParseNumber(tree, "nodes", of.shape.num_candidates() + 1));
  const json acceptance = document.value("acceptance", json());
  if (!acceptance.is_object() || !acceptance.contains("mean") ||
      !acceptance["mean"].is_number()) {
    return Bad(
        "there is neither \"accept\" nor \"acceptance\" with a \"mean\"");
  }
  return ProfileOfMean(acceptance["mean"].get<double>(), of);
}

absl::StatusOr<AcceptanceProfile> ParseProfile(const std::string& text,
                                               const std::string& path) {
  BOLE_ASSIGN_OR_RETURN(const json document, ParseJson(text, kMaxNesting));
  if (!document.is_object()) return Bad("it is no object");
  if (!document.contains("accept")) return ParseMeasured(document);
  AcceptanceProfile profile{.name = absl::StrCat("acceptance of ", path),
                            .chances = {}};
  BOLE_ASSIGN_OR_RETURN(profile.chances, ParseChances(document["accept"]));
  return profile;
}

}  // namespace

absl::StatusOr<AcceptanceProfile> ProfileOfMean(double mean,
                                                const MeasuredTree& of) {
  const int deepest = std::min(of.shape.depth + 1, of.nodes);
  if (!(mean >= 1 && mean <= deepest) || of.nodes < 2) {
    return Bad(absl::StrCat("a mean acceptance of ", mean,
                            " is not possible for trees of ", of.nodes,
                            " nodes and depth ", of.shape.depth,
                            "; allowed is [1, ", deepest, "]"));
  }
  const double first = FitFirstChance(mean, of.shape, of.nodes);
  return AcceptanceProfile{
      .name = absl::StrCat("mean acceptance ", mean, " (trees of ", of.nodes,
                           " nodes, top-k ", of.shape.top_k, ", depth ",
                           of.shape.depth, ")"),
      .chances = HalvingChances(first, kMaxDraftTopK)};
}

absl::StatusOr<AcceptanceProfile> LoadProfile(const std::string& path) {
  BOLE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxBytes));
  absl::StatusOr<AcceptanceProfile> profile = ParseProfile(text, path);
  if (profile.ok()) return profile;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", profile.status().message()));
}

}  // namespace bole::tune
