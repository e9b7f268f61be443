#include "tests/simulation/faults.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tests/simulation/simulated_text.h"

namespace bole::simulation {
namespace {

constexpr std::string_view kGarbageNames[kNumGarbage] = {
    "committed", "token", "round", "tree", "shape", "many", "number"};

absl::Status Bad(std::string_view what, std::string_view value,
                 std::string_view allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat(absl::string_view(what.data(), what.size()), " is '",
                   absl::string_view(value.data(), value.size()), "', not ",
                   absl::string_view(allowed.data(), allowed.size())));
}

// The number that `text` is.
template <typename T>
bool Read(std::string_view text, T& value) {
  const absl::string_view view(text.data(), text.size());
  if constexpr (std::is_same_v<T, double>) {
    return absl::SimpleAtod(view, &value);
  } else {
    return absl::SimpleAtoi(view, &value);
  }
}

// Cuts `text` at the first `separator`; all of it if there is none.
std::string_view TakeUntil(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view head = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return head;
}

absl::Status ParseKind(std::string_view text, Fault& fault) {
  std::string_view detail = text;
  const char separator = text.starts_with("garbage") ? '=' : ':';
  const std::string_view name = TakeUntil(detail, separator);
  if (text == "crash") {
    fault.kind = FaultKind::kCrash;
  } else if (text == "hang") {
    fault.kind = FaultKind::kHang;
  } else if (text == "garbage") {
    fault.kind = FaultKind::kGarbage;
  } else if (name == "garbage") {
    fault.kind = FaultKind::kGarbage;
    const auto* const found =
        std::find(std::begin(kGarbageNames), std::end(kGarbageNames), detail);
    if (found == std::end(kGarbageNames)) {
      return Bad("garbage", detail,
                 "committed, token, round, tree, shape, many or number");
    }
    fault.garbage = static_cast<Garbage>(found - std::begin(kGarbageNames));
  } else if (name == "slow") {
    fault.kind = FaultKind::kSlow;
    if (!Read(detail, fault.factor) || !(fault.factor >= 1)) {
      return Bad("the factor of slow", detail, "a number of 1 and more");
    }
  } else {
    return Bad("the kind of a fault", text,
               "crash, hang, garbage, garbage=WHAT or slow:FACTOR");
  }
  return absl::OkStatus();
}

absl::Status ParseRounds(std::string_view text, Fault& fault) {
  fault.on_signal = text == "signal";
  if (fault.on_signal) return absl::OkStatus();
  std::string_view rest = text;
  const std::string_view first = TakeUntil(rest, '-');
  const bool is_one = first.size() == text.size();
  bool ok = Read(first, fault.first_round) && fault.first_round >= 1;
  if (is_one) fault.last_round = fault.first_round;
  if (!rest.empty()) ok = ok && Read(rest, fault.last_round);
  if (ok && fault.last_round >= fault.first_round) return absl::OkStatus();
  return Bad("the round of a fault", text,
             "ROUND, FIRST-LAST, FIRST- or signal");
}

absl::Status ParseProbability(std::string_view text, Fault& fault) {
  std::string_view seed = text;
  const std::string_view probability = TakeUntil(seed, ',');
  const bool ok = Read(probability, fault.probability) &&
                  fault.probability >= 0 && fault.probability <= 1 &&
                  (seed.empty() || Read(seed, fault.seed));
  if (ok) return absl::OkStatus();
  return Bad("the chance of a fault", text, "PROBABILITY or PROBABILITY,SEED");
}

bool Happens(const Fault& fault, int64_t round) {
  return round >= fault.first_round && round <= fault.last_round &&
         ToUniform(Mix(fault.seed, static_cast<uint64_t>(round))) <
             fault.probability;
}

// One of `results` that `is_fit`; null if none is.
SequenceResult* Pick(std::vector<SequenceResult>& results, uint64_t bits,
                     const std::function<bool(const SequenceResult&)>& is_fit) {
  for (size_t i = 0; i < results.size(); ++i) {
    SequenceResult& result = results[(bits + i) % results.size()];
    if (is_fit(result)) return &result;
  }
  return nullptr;
}

// Returns whether the result could be spoiled in that way.
bool SpoilSequence(Garbage garbage, uint64_t bits, const StepLimits& limits,
                   std::vector<SequenceResult>& results) {
  const auto emits = [](const SequenceResult& of) {
    return !of.emitted.empty();
  };
  const auto proposes = [](const SequenceResult& of) {
    return of.proposal && of.proposal->size() > 1;
  };
  SequenceResult* const of =
      Pick(results, bits,
           garbage == Garbage::kTree
               ? std::function<bool(const SequenceResult&)>(proposes)
               : emits);
  if (of == nullptr) return false;
  switch (garbage) {
    case Garbage::kCommitted:
      of->committed = limits.max_context + 1 + static_cast<int>(bits % 1000);
      return true;
    case Garbage::kToken:
      of->emitted.back().token =
          limits.vocabulary + static_cast<int>(bits % 1000);
      return true;
    case Garbage::kTree:
      of->proposal->parent[1] = of->proposal->size() - 1;
      return true;
    case Garbage::kMany:
      of->emitted.resize(limits.max_context + 1, of->emitted.back());
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::StatusOr<Fault> ParseFault(std::string_view text) {
  constexpr std::string_view kRandom = ":random=";
  Fault fault;
  const size_t at = text.find('@');
  const size_t random = text.find(kRandom);
  if (at != std::string_view::npos) {
    BOLE_RETURN_IF_ERROR(ParseKind(text.substr(0, at), fault));
    BOLE_RETURN_IF_ERROR(ParseRounds(text.substr(at + 1), fault));
  } else if (random != std::string_view::npos) {
    BOLE_RETURN_IF_ERROR(ParseKind(text.substr(0, random), fault));
    BOLE_RETURN_IF_ERROR(
        ParseProbability(text.substr(random + kRandom.size()), fault));
  } else {
    return Bad("a fault", text, "KIND@ROUND or KIND:random=PROBABILITY,SEED");
  }
  return fault;
}

RoundFaults FaultsOf(const std::vector<Fault>& faults, int64_t round,
                     int signal) {
  RoundFaults all;
  int signals = 0;
  for (const Fault& fault : faults) {
    const bool happens =
        fault.on_signal ? ++signals == signal : Happens(fault, round);
    if (!happens) continue;
    all.bits = Mix(fault.seed + 1, static_cast<uint64_t>(round)) >> 1;
    switch (fault.kind) {
      case FaultKind::kCrash:
        all.crash = true;
        break;
      case FaultKind::kHang:
        all.hang = true;
        break;
      case FaultKind::kSlow:
        all.slowness *= fault.factor;
        break;
      case FaultKind::kGarbage:
        all.garbage = fault.garbage.value_or(
            static_cast<Garbage>(all.bits % kNumGarbage));
        break;
    }
  }
  return all;
}

void Spoil(const RoundFaults& faults, const StepLimits& limits,
           StepResult& result) {
  if (!faults.garbage || *faults.garbage == Garbage::kNumber) return;
  if (*faults.garbage == Garbage::kRound) {
    result.round += 1 + static_cast<int>(faults.bits % 1000);
    return;
  }
  if (SpoilSequence(*faults.garbage, faults.bits, limits, result.sequences) ||
      SpoilSequence(*faults.garbage, faults.bits, limits, result.prefills)) {
    return;
  }
  if (!result.sequences.empty()) {
    result.sequences.pop_back();
  } else if (!result.prefills.empty()) {
    result.prefills.pop_back();
  }
}

}  // namespace bole::simulation
