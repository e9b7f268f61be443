#include "worker_service/eval/replay.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {
namespace {

// Compares two results field by field; the first difference sticks.
class Comparison {
 public:
  explicit Comparison(float tolerance) : tolerance_(tolerance) {}

  const std::string& difference() const { return difference_; }

  void Results(const StepResult& got, const StepResult& want) {
    Sequences("prefill ", got.prefills, want.prefills);
    Sequences("sequence ", got.sequences, want.sequences);
    Number("same forest", got.forest == want.forest, true);
  }

 private:
  void Sequences(const char* kind, const std::vector<SequenceResult>& got,
                 const std::vector<SequenceResult>& want) {
    Number(absl::StrCat("number of ", kind, "results"), got.size(),
           want.size());
    for (size_t i = 0; i < want.size() && difference_.empty(); ++i) {
      Sequence(absl::StrCat(kind, i, ": "), got[i], want[i]);
    }
  }

  void Sequence(const std::string& who, const SequenceResult& got,
                const SequenceResult& want) {
    Number(who + "committed", got.committed, want.committed);
    Number(who + "accepted_drafts", got.accepted_drafts, want.accepted_drafts);
    // Recordings of earlier versions lack this field.
    if (want.promised_drafts) {
      Real(who + "promised_drafts", got.promised_drafts.value_or(-1),
           *want.promised_drafts);
    }
    Tokens(who + "emitted ", got.emitted, want.emitted);
    Tokens(who + "prompt_logprobs ", got.prompt_logprobs, want.prompt_logprobs);
    Number(who + "has_proposal", got.proposal.has_value(),
           want.proposal.has_value());
    if (difference_.empty() && want.proposal) {
      Tree(who + "proposal: ", *got.proposal, *want.proposal);
    }
  }

  void Tokens(const std::string& who, const std::vector<EmittedToken>& got,
              const std::vector<EmittedToken>& want) {
    Number(who + "tokens", got.size(), want.size());
    for (size_t i = 0; i < want.size() && difference_.empty(); ++i) {
      Token(absl::StrCat(who, i, ": "), got[i], want[i]);
    }
  }

  void Token(const std::string& who, const EmittedToken& got,
             const EmittedToken& want) {
    Number(who + "token", got.token, want.token);
    Real(who + "logprob", got.logprob, want.logprob);
    Number(who + "number of top tokens", got.top.size(), want.top.size());
    for (size_t i = 0; i < want.top.size() && difference_.empty(); ++i) {
      const std::string top = absl::StrCat(who, "top ", i, ": ");
      Number(top + "token", got.top[i].token, want.top[i].token);
      Real(top + "logprob", got.top[i].logprob, want.top[i].logprob);
    }
  }

  void Tree(const std::string& who, const ProposalTree& got,
            const ProposalTree& want) {
    Number(who + "number of nodes", got.size(), want.size());
    for (int i = 0; i < want.size() && difference_.empty(); ++i) {
      const std::string node = absl::StrCat(who, "node ", i, ": ");
      Number(node + "parent", got.parent[i], want.parent[i]);
      Number(node + "token", got.token[i], want.token[i]);
      Real(node + "log_rho", got.log_rho[i], want.log_rho[i]);
    }
  }

  template <typename T>
  void Number(const std::string& what, T got, T want) {
    if (got != want) Differ(what, got, want);
  }

  // Compares for equality first, since the difference of equal infinities is
  // NaN.
  void Real(const std::string& what, float got, float want) {
    if (got == want || (std::isnan(got) && std::isnan(want))) return;
    if (!(std::abs(got - want) <= tolerance_)) Differ(what, got, want);
  }

  template <typename T>
  void Differ(const std::string& what, T got, T want) {
    if (!difference_.empty()) return;
    difference_ = absl::StrCat(what, " is ", got, ", was ", want);
  }

  const float tolerance_;
  std::string difference_;
};

}  // namespace

std::string FirstDifference(const StepResult& got, const StepResult& want,
                            float tolerance) {
  Comparison comparison(tolerance);
  comparison.Results(got, want);
  return comparison.difference();
}

namespace {

// Where the results of a step's rounds first differ from the recorded ones.
std::string Difference(std::span<const StepResult> got,
                       const RecordedStep& recorded, float tolerance) {
  const std::vector<StepResult>& want = recorded.results;
  const bool enough = recorded.is_complete() ? got.size() == want.size()
                                             : got.size() >= want.size();
  if (!enough) {
    return absl::StrCat("number of rounds is ", got.size(), ", was ",
                        want.size());
  }
  for (size_t round = 0; round < want.size(); ++round) {
    const std::string difference =
        FirstDifference(got[round], want[round], tolerance);
    if (difference.empty()) continue;
    return want.size() == 1 ? difference
                            : absl::StrCat("round ", round, ": ", difference);
  }
  return "";
}

}  // namespace

absl::StatusOr<ReplayReport> Replay(Engine& engine,
                                    std::span<const RecordedStep> steps,
                                    float tolerance) {
  ReplayReport report;
  for (size_t i = 0; i < steps.size(); ++i) {
    std::vector<StepResult> results;
    const absl::Status status = engine.Step(
        steps[i].plan,
        [&](StepResult result) { results.push_back(std::move(result)); });
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("step ", i, ": ", status.message()));
    }
    std::string difference = Difference(results, steps[i], tolerance);
    if (!difference.empty()) {
      if (report.first_different) continue;
      report.first_different = i;
      report.first_difference = std::move(difference);
    } else if (steps[i].is_complete()) {
      ++report.equal;
    } else {
      report.has_incomplete = true;
    }
  }
  return report;
}

}  // namespace bole
