#include "common/cost_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/json.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "common/tokenizer/read_file.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr int kMaxDepth = 16;  // Nesting of the JSON.
constexpr double kMaxMicroseconds = 1e12;
constexpr size_t kMaxHeldOut = 1000;

absl::Status Bad(const std::string& field, const json& value,
                 const char* allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value.dump(-1, ' ', /*ensure_ascii=*/true),
                   "; allowed is ", allowed));
}

// Null where there is none.
json Member(const json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) return nullptr;
  return object[name];
}

absl::StatusOr<std::string> TextOf(const json& object, const char* name) {
  const json value = Member(object, name);
  if (!value.is_string()) return Bad(name, value, "a text");
  return value.get<std::string>();
}

absl::StatusOr<int> CountOf(const json& object, const char* name, int least) {
  const json value = Member(object, name);
  if (!value.is_number_integer() || value.get<int64_t>() < least ||
      value.get<int64_t>() > std::numeric_limits<int>::max()) {
    return Bad(name, value, least == 0 ? "a count" : "a count of 1 or more");
  }
  return value.get<int>();
}

absl::StatusOr<double> MicrosecondsOf(const json& object, const char* name) {
  const json value = Member(object, name);
  if (!value.is_number() || value.get<double>() < 0 ||
      value.get<double>() > kMaxMicroseconds) {
    return Bad(name, value, "microseconds");
  }
  return value.get<double>();
}

absl::StatusOr<CostTableOf> ParseOf(const json& object) {
  CostTableOf of;
  BOLE_ASSIGN_OR_RETURN(of.model, TextOf(object, "model"));
  BOLE_ASSIGN_OR_RETURN(of.fingerprint, TextOf(object, "fingerprint"));
  BOLE_ASSIGN_OR_RETURN(of.device, TextOf(object, "device"));
  BOLE_ASSIGN_OR_RETURN(of.build, TextOf(object, "build"));
  BOLE_ASSIGN_OR_RETURN(of.ranks, CountOf(object, "ranks", 1));
  return of;
}

absl::StatusOr<std::vector<HeldOutRound>> ParseHeldOut(const json& rounds) {
  std::vector<HeldOutRound> held_out;
  if (rounds.is_null()) return held_out;
  if (!rounds.is_array() || rounds.size() > kMaxHeldOut) {
    return absl::InvalidArgumentError(
        absl::StrCat("held_out is no array of at most ", kMaxHeldOut));
  }
  for (const json& round : rounds) {
    HeldOutRound next;
    const json quantities = Member(round, "round");
    if (!quantities.is_object()) return Bad("round", quantities, "an object");
    BOLE_ASSIGN_OR_RETURN(next.quantities, ParseQuantities(quantities));
    BOLE_ASSIGN_OR_RETURN(next.predicted_us,
                          MicrosecondsOf(round, "predicted_us"));
    BOLE_ASSIGN_OR_RETURN(next.measured_us,
                          MicrosecondsOf(round, "measured_us"));
    held_out.push_back(next);
  }
  return held_out;
}

double Rounded(double microseconds) {
  return std::round(microseconds * 100) / 100;
}

// One line for each member, and for each object of an array.
std::string Print(const ordered_json& document) {
  std::vector<std::string> members;
  for (const auto& [name, value] : document.items()) {
    std::string text = value.dump();
    if (value.is_array() && !value.empty() && value[0].is_object()) {
      std::vector<std::string> lines;
      for (const ordered_json& element : value) {
        lines.push_back("    " + element.dump());
      }
      text = absl::StrCat("[\n", absl::StrJoin(lines, ",\n"), "\n  ]");
    }
    members.push_back(absl::StrCat("  \"", name, "\": ", text));
  }
  return absl::StrCat("{\n", absl::StrJoin(members, ",\n"), "\n}\n");
}

// The value that is at least as high as `share` of all.
double Quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<size_t>(
      std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(rank, 1) - 1];
}

}  // namespace

std::string FingerprintForCosts(const ModelFingerprint& fingerprint) {
  const std::string all = absl::StrCat(
      fingerprint.config, fingerprint.tokenizer, fingerprint.weights);
  return all.empty() ? "" : Sha256Hex(all);
}

double HeldOutRound::RelativeError() const {
  return measured_us > 0 ? std::abs(predicted_us - measured_us) / measured_us
                         : 0;
}

PredictionErrors ErrorsOf(const CostTable& table) {
  std::vector<double> errors;
  for (const HeldOutRound& round : table.held_out) {
    errors.push_back(round.RelativeError());
  }
  std::sort(errors.begin(), errors.end());
  return {.median = Quantile(errors, 0.5), .p95 = Quantile(errors, 0.95)};
}

std::string ToJson(const CostTable& table) {
  ordered_json document = {
      {"format", kFormat},
      {"of",
       {{"model", table.of.model},
        {"fingerprint", table.of.fingerprint},
        {"device", table.of.device},
        {"build", table.of.build},
        {"ranks", table.of.ranks}}},
      {"measured",
       {{"at", table.measured_at},
        {"combinations", table.num_combinations},
        {"measurements", table.num_measurements}}},
      {"round_trip_us", Rounded(table.round_trip_seconds * 1e6)}};
  document.update(table.costs.ToJson());
  document["held_out"] = ordered_json::array();
  for (const HeldOutRound& round : table.held_out) {
    document["held_out"].push_back(
        {{"round", QuantitiesToJson(round.quantities)},
         {"predicted_us", Rounded(round.predicted_us)},
         {"measured_us", Rounded(round.measured_us)}});
  }
  return Print(document);
}

absl::StatusOr<CostTable> ParseCostTable(std::string_view text) {
  if (text.size() > kMaxCostTableBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the table has ", text.size(), " bytes; allowed are ",
                     kMaxCostTableBytes));
  }
  BOLE_ASSIGN_OR_RETURN(const json document, ParseJson(text, kMaxDepth));
  const json format = Member(document, "format");
  if (format != kFormat) return Bad("format", format, "1");
  const json of = Member(document, "of");
  const json measured = Member(document, "measured");
  CostTable table;
  BOLE_ASSIGN_OR_RETURN(table.of, ParseOf(of));
  BOLE_ASSIGN_OR_RETURN(table.measured_at, TextOf(measured, "at"));
  BOLE_ASSIGN_OR_RETURN(table.num_combinations,
                        CountOf(measured, "combinations", 0));
  BOLE_ASSIGN_OR_RETURN(table.num_measurements,
                        CountOf(measured, "measurements", 0));
  BOLE_ASSIGN_OR_RETURN(const double round_trip_us,
                        MicrosecondsOf(document, "round_trip_us"));
  table.round_trip_seconds = round_trip_us * 1e-6;
  BOLE_ASSIGN_OR_RETURN(table.costs, StepCosts::FromJson(document));
  BOLE_ASSIGN_OR_RETURN(table.held_out,
                        ParseHeldOut(Member(document, "held_out")));
  return table;
}

absl::StatusOr<CostTable> LoadCostTable(const std::string& path) {
  BOLE_ASSIGN_OR_RETURN(const std::string text,
                        ReadFile(path, kMaxCostTableBytes));
  absl::StatusOr<CostTable> table = ParseCostTable(text);
  if (table.ok()) return table;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", table.status().message()));
}

absl::Status CheckMeasuredWith(const CostTable& table, const CostTableOf& of) {
  const auto differs = [](const char* what, const auto& theirs,
                          const auto& ours) {
    return absl::FailedPreconditionError(
        absl::StrCat("the table of costs was measured with ", what, " '",
                     theirs, "', and this worker has '", ours, "'"));
  };
  if (table.of.model != of.model) {
    return differs("model", table.of.model, of.model);
  }
  if (table.of.fingerprint != of.fingerprint) {
    return differs("fingerprint", table.of.fingerprint, of.fingerprint);
  }
  if (table.of.device != of.device) {
    return differs("device", table.of.device, of.device);
  }
  if (table.of.build != of.build) {
    return differs("build", table.of.build, of.build);
  }
  if (table.of.ranks != of.ranks) {
    return differs("ranks", table.of.ranks, of.ranks);
  }
  return absl::OkStatus();
}

}  // namespace bole
