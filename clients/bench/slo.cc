#include "clients/bench/slo.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace bole::bench {

absl::StatusOr<Slo> ParseSlo(const std::string& text) {
  Slo slo;
  const std::vector<std::string> parts =
      absl::StrSplit(text, ',', absl::SkipEmpty());
  for (const std::string& part : parts) {
    const std::vector<std::string> words = absl::StrSplit(part, ':');
    double milliseconds = 0;
    if (words.size() != 2 || !absl::SimpleAtod(words[1], &milliseconds) ||
        !(milliseconds > 0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", part, "\" is no bound; write NAME:MILLISECONDS, as ttft:500"));
    }
    std::optional<double>* const bound = words[0] == "ttft"   ? &slo.ttft
                                         : words[0] == "tpot" ? &slo.tpot
                                         : words[0] == "e2e"  ? &slo.e2e
                                                              : nullptr;
    if (bound == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", words[0], "\" has no bound; ttft, tpot and e2e may have one"));
    }
    *bound = milliseconds / 1000;
  }
  return slo;
}

std::string SloText(const Slo& slo) {
  std::vector<std::string> parts;
  for (const auto& [name, bound] :
       {std::pair("ttft", slo.ttft), std::pair("tpot", slo.tpot),
        std::pair("e2e", slo.e2e)}) {
    if (bound) {
      parts.push_back(absl::StrCat(name, " <= ", *bound * 1000, " ms"));
    }
  }
  return parts.empty() ? "none" : absl::StrJoin(parts, ", ");
}

bool Meets(const RequestRecord& record, const Slo& slo) {
  const std::optional<double> first = FirstTokenTime(record);
  if (!record.status.ok() || !first) return false;
  if (slo.ttft && *first - record.scheduled > *slo.ttft) return false;
  if (slo.e2e && record.end - record.scheduled > *slo.e2e) return false;
  return !slo.tpot || TimePerOutputToken(record).value_or(0) <= *slo.tpot;
}

}  // namespace bole::bench
