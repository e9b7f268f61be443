#include "clients/cli/output.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

// "-" if nothing was measured.
std::string Rate(double count, double seconds) {
  return count > 0 && seconds > 0 ? FixedPoint(count / seconds, 1) : "-";
}

// Accepted drafts and the token that every round adds.
std::string MeanAccepted(const v1::Speculation& speculation) {
  if (speculation.rounds() == 0) return "-";
  return FixedPoint(1.0 + static_cast<double>(speculation.accepted_drafts()) /
                              speculation.rounds(),
                    2);
}

// Drafts of a round that had any.
std::string DraftsText(const v1::Speculation& speculation) {
  const double drafted = static_cast<double>(speculation.chain_rounds()) +
                         speculation.tree_rounds();
  if (drafted == 0) return "";
  return absl::StrCat("; ",
                      FixedPoint(speculation.accepted_drafts() / drafted, 2),
                      " drafts accepted of ",
                      FixedPoint(speculation.promised_tokens() / drafted, 2),
                      " promised a round");
}

std::string FinishReasonText(const v1::GenerateComplete& complete) {
  switch (complete.finish_reason()) {
    case v1::FINISH_REASON_LENGTH:
      return "length";
    case v1::FINISH_REASON_STOP:
      if (complete.has_matched_token_id()) {
        return absl::StrCat("stop, token ", complete.matched_token_id());
      }
      if (complete.has_matched_stop_str()) {
        return "stop, " + JsonString(complete.matched_stop_str());
      }
      return "stop";
    default:
      return absl::StrCat("unknown (", complete.finish_reason(), ")");
  }
}

// Empty if every round is the same.
const char* PolicyText(v1::BudgetPolicy policy) {
  switch (policy) {
    case v1::BUDGET_POLICY_EPSILON:
      return "epsilon, at most ";
    case v1::BUDGET_POLICY_ADASERVE:
      return "adaserve, at most ";
    case v1::BUDGET_POLICY_GOODPUT:
      return "goodput, at most ";
    case v1::BUDGET_POLICY_SLO:
      return "slo, at most ";
    default:
      return "";
  }
}

}  // namespace

std::string FormatTable(std::span<const TableRow> rows) {
  constexpr size_t kValueColumn = 22;
  std::string table;
  for (const TableRow& row : rows) {
    std::string line = row.name;
    line.resize(std::max(kValueColumn, row.name.size() + 1), ' ');
    table += line + row.value + "\n";
  }
  return table;
}

std::string FixedPoint(double value, int decimals) {
  char text[400];  // The largest double has 309 digits before the point.
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  return text;
}

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  // Fails for well-known types alone, and no message here has one.
  BOLE_CHECK(
      google::protobuf::util::MessageToJsonString(message, &json, options)
          .ok());
  return json;
}

std::string JsonString(const std::string& text) {
  return nlohmann::json(text).dump(/*indent=*/-1, /*indent_char=*/' ',
                                   /*ensure_ascii=*/false,
                                   nlohmann::json::error_handler_t::replace);
}

const char* OffReasonText(v1::SpeculationOffReason reason) {
  switch (reason) {
    case v1::SPECULATION_OFF_REASON_NOT_WORTH_IT:
      return "not worth it on this device";
    case v1::SPECULATION_OFF_REASON_NO_TABLE:
      return "the worker was not calibrated";
    case v1::SPECULATION_OFF_REASON_NO_DRAFTER:
      return "the model has no drafter";
    case v1::SPECULATION_OFF_REASON_DISABLED:
      return "the server has it off";
    case v1::SPECULATION_OFF_REASON_REQUEST:
      return "as the request asks";
    default:
      return "no reason given";
  }
}

std::string ChosenText(const v1::Speculation& speculation) {
  const uint32_t off = speculation.off_rounds();
  const uint32_t chain = speculation.chain_rounds();
  const uint32_t tree = speculation.tree_rounds();
  const uint32_t rounds = off + chain + tree;
  std::vector<std::string> parts;
  if (off > 0) {
    parts.push_back(absl::StrCat("off in ", off, " (",
                                 OffReasonText(speculation.off_reason()), ")"));
  }
  if (chain > 0) parts.push_back(absl::StrCat("chain in ", chain));
  if (tree > 0) parts.push_back(absl::StrCat("tree in ", tree));
  if (parts.empty()) return "";
  return absl::StrCat(absl::StrJoin(parts, ", "), " of ", rounds,
                      rounds == 1 ? " round" : " rounds",
                      DraftsText(speculation));
}

std::string Summary(const v1::GenerateComplete& complete) {
  const v1::Usage& usage = complete.usage();
  const v1::Timing& timing = complete.timing();
  std::vector<TableRow> rows = {
      {"prompt tokens", absl::StrCat(usage.prompt_tokens())},
      {"output tokens", absl::StrCat(usage.completion_tokens())},
      {"tokens per second",
       Rate(usage.completion_tokens() - 1.0,
            timing.total_seconds() - timing.first_token_seconds())},
      {"rounds", absl::StrCat(complete.speculation().rounds())},
      {"mean accepted tokens", MeanAccepted(complete.speculation())},
      {"time to first token",
       FixedPoint(timing.first_token_seconds(), 3) + " s"},
      {"finish reason", FinishReasonText(complete)},
  };
  std::string chosen = ChosenText(complete.speculation());
  if (!chosen.empty()) rows.push_back({"speculation", std::move(chosen)});
  return FormatTable(rows);
}

std::string Progress(int tokens, int tokens_since_first, double seconds) {
  return absl::StrCat(tokens, tokens == 1 ? " token, " : " tokens, ",
                      Rate(tokens_since_first, seconds), " tokens/s");
}

std::string SpeculationText(const v1::SpeculationPolicy& policy) {
  if (policy.mode() == v1::SPECULATION_MODE_OFF) return "off";
  const bool is_chain = policy.mode() == v1::SPECULATION_MODE_CHAIN;
  return absl::StrCat(PolicyText(policy.policy()), is_chain ? "chain" : "tree",
                      ", top-k ", policy.top_k(), ", depth ", policy.depth(),
                      ", ", policy.nodes(), " nodes");
}

}  // namespace bole
