// Rounds of a policy without a model: trees whose nodes are right as often as
// they say, and a table of costs.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_POLICY_SIMULATED_DECODING_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_POLICY_SIMULATED_DECODING_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/cost_table.h"
#include "common/draft_shape.h"
#include "common/proposal_tree.h"
#include "common/step.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/policy/request_acceptance.h"
#include "scheduler_service/policy/round_policy.h"

namespace bole::testing {

// How often drafts are right. A context is easy or hard, by chance; the
// likeliest child of a node is right with the stated probability, and the r-th
// one with a share of 2^-r of what is left times `rest`.
struct DraftQuality {
  double easy_share = 0.6;
  double easy = 0.95;
  double hard = 0.5;
  double rest = 0.5;
  // What the drafter says is this power of what is true.
  double says = 1;
};

struct SimulatedCosts {
  std::string name;
  std::string json;  // Of StepCosts.
  std::vector<int> row_buckets;
  double trip_seconds = 0.0002;
};

// The decoding of a batch.
struct SimulatedBatch {
  int requests = 1;
  int64_t kv_tokens_each = 1000;
  std::vector<DraftQuality> quality;  // Of request b: b modulo the size.
  // After so many tokens a request ends, and another one takes its place, whose
  // prompt is a chunk of the next plan. 0: none ends, as in the paper's Eq. 12.
  int tokens_each = 0;
  int prompt_tokens = 64;
};

// What one budget and shape bring: `nodes` for each request.
struct FixedChoice {
  std::optional<DraftShape> draft;
  int budget = 0;
  int lease_rounds = 1;
};

class SimulatedDecoding {
 public:
  SimulatedDecoding(const SimulatedCosts& costs, SimulatedBatch batch,
                    uint32_t seed);

  // A worker with these costs.
  const WorkerDescription& worker() const { return worker_; }

  // From now on.
  void set_speed(double speed) { speed_ = speed; }
  void set_quality(std::vector<DraftQuality> quality);

  // Both run plans until so many rounds have passed, and return tokens per
  // second. Lone roots are what there is in the beginning.
  double Run(RoundPolicy& policy, int rounds);
  double Run(const FixedChoice& choice, int rounds);

  // What the policy chose, by draft: none, a chain, a tree.
  const std::array<int, 3>& chosen() const { return chosen_; }
  // Requests that came, and those whom the drafter was to follow.
  int num_arrivals() const { return num_arrivals_; }
  int num_followed() const { return num_followed_; }
  void ForgetChosen();

 private:
  // A tree and which of its nodes are right.
  struct Drafted {
    ProposalTree tree;
    std::vector<bool> right;
  };
  struct Lent {
    int budget;
    std::vector<TreeBounds> bounds;
    int prefill_tokens = 0;
  };
  struct Request {
    int left = 0;            // Tokens.
    bool has_ended = false;  // The next one in its place has not come yet,
    bool arrives = false;    // or has, and is in its prefill.
    bool is_followed = true;
    RequestAcceptance acceptance = {};
    Drafted drafted = {};
  };
  Drafted Draft(int request, const std::optional<DraftShape>& shape);
  void DraftAll(const std::optional<DraftShape>& shape);
  // Between plans: somebody comes in the place of each that has ended.
  void Arrive();
  // Those that have come begin to decode, of them so many followed.
  void Begin(int followed);
  // Between plans: sets who decodes in the next one.
  void SetRunning();
  // What a tree of which `nodes` are verified brings: drafts and one token
  // more.
  static std::vector<int32_t> EmittedBy(const Drafted& of,
                                        const std::vector<int32_t>& nodes);
  // Verifies the trees that there are. Returns the tokens that are expected of
  // the nodes, roots included: what came is noise around that.
  double Verify(const Lent& lent, RoundPolicy* observer, bool is_first,
                const std::optional<DraftShape>& draft);
  RoundChoice Ask(RoundPolicy& policy);

  WorkerDescription worker_;
  std::shared_ptr<CostTable> table_;
  const double trip_seconds_;
  SimulatedBatch batch_;
  std::mt19937 rng_;
  double speed_ = 1;
  double now_ = 0;
  std::vector<Request> requests_;
  std::vector<int> running_;         // Of these, those that decode.
  std::vector<ProposalTree> trees_;  // Of those.
  std::array<int, 3> chosen_{};
  int num_arrivals_ = 0;
  int num_followed_ = 0;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_POLICY_SIMULATED_DECODING_H_
