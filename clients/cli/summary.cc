#include "clients/cli/summary.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/cli/json_output.h"
#include "clients/cli/table.h"

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

}  // namespace

std::string Summary(const v1::GenerateComplete& complete) {
  const v1::Usage& usage = complete.usage();
  const v1::Timing& timing = complete.timing();
  const std::vector<TableRow> rows = {
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
  return FormatTable(rows);
}

std::string Progress(int tokens, int tokens_since_first, double seconds) {
  return absl::StrCat(tokens, tokens == 1 ? " token, " : " tokens, ",
                      Rate(tokens_since_first, seconds), " tokens/s");
}

std::string SpeculationText(const v1::SpeculationPolicy& policy) {
  if (policy.mode() == v1::SPECULATION_MODE_OFF) return "off";
  const bool is_chain = policy.mode() == v1::SPECULATION_MODE_CHAIN;
  return absl::StrCat(is_chain ? "chain" : "tree", ", top-k ", policy.top_k(),
                      ", depth ", policy.depth(), ", ", policy.nodes(),
                      " nodes");
}

}  // namespace bole
