#include "tests/scheduler_service/policy/simulated_decoding.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <utility>

#include "common/check.h"
#include "common/select_nodes.h"
#include "scheduler_service/policy/cost_model.h"
#include "scheduler_service/policy/make_policy.h"

namespace bole::testing {

SimulatedDecoding::SimulatedDecoding(const SimulatedCosts& costs,
                                     SimulatedBatch batch, uint32_t seed)
    : table_(std::make_shared<CostTable>()),
      trip_seconds_(costs.trip_seconds),
      batch_(std::move(batch)),
      rng_(seed),
      requests_(batch_.requests) {
  for (int b = 0; b < batch_.requests; ++b) {
    requests_[b].left = batch_.tokens_each * (b + 1) / batch_.requests;
  }
  absl::StatusOr<StepCosts> parsed = StepCosts::Parse(costs.json);
  BOLE_CHECK(parsed.ok());
  table_->costs = *std::move(parsed);
  table_->round_trip_seconds = costs.trip_seconds;
  worker_.protocol_version = kDeferralProtocolVersion;
  worker_.limits = {.max_requests = 64,
                    .max_nodes = 1024,
                    .max_nodes_per_tree = 128,
                    .max_prefill_tokens = 1024,
                    .max_draft = {.top_k = 4, .depth = 8},
                    .num_slots = 64,
                    .num_pages = 4096,
                    .page_size = 64,
                    .max_context = 8192,
                    .vocabulary = 256,
                    .max_lease_rounds = kMaxLeaseRounds};
  worker_.has_drafter = true;
  worker_.row_buckets = costs.row_buckets;
  worker_.costs = table_;
  SetRunning();
  DraftAll(std::nullopt);
}

void SimulatedDecoding::set_quality(std::vector<DraftQuality> quality) {
  batch_.quality = std::move(quality);
}

SimulatedDecoding::Drafted SimulatedDecoding::Draft(
    int request, const std::optional<DraftShape>& shape) {
  Drafted drafted{.tree = {.parent = {kNoParent}, .token = {0}, .log_rho = {0}},
                  .right = {true}};
  if (!shape) return drafted;
  const DraftQuality& quality = batch_.quality[request % batch_.quality.size()];
  ProposalTree& tree = drafted.tree;
  std::uniform_real_distribution<double> uniform;
  std::vector<int> parents = {0};
  for (int level = 0; level < shape->depth; ++level) {
    std::vector<int> children;
    for (const int parent : parents) {
      const double first =
          uniform(rng_) < quality.easy_share ? quality.easy : quality.hard;
      double truth = uniform(rng_);  // Which child is right; beyond all: none.
      double chance = first;
      double left = (1 - first) * quality.rest;
      for (int rank = 0; rank < shape->top_k; ++rank) {
        const bool is_right =
            drafted.right[parent] && truth >= 0 && truth < chance;
        truth -= chance;
        tree.parent.push_back(parent);
        tree.token.push_back(rank + 1);
        tree.log_rho.push_back(
            tree.log_rho[parent] +
            static_cast<float>(quality.says * std::log(chance)));
        drafted.right.push_back(is_right);
        children.push_back(tree.size() - 1);
        left /= 2;
        chance = left;
      }
    }
    const auto likelier = [&](int a, int b) {
      return tree.log_rho[a] > tree.log_rho[b];
    };
    std::stable_sort(children.begin(), children.end(), likelier);
    if (std::ssize(children) > shape->top_k) children.resize(shape->top_k);
    std::sort(children.begin(), children.end());
    parents = std::move(children);
  }
  return drafted;
}

void SimulatedDecoding::DraftAll(const std::optional<DraftShape>& shape) {
  trees_.clear();
  for (const int b : running_) {
    Request& request = requests_[b];
    const bool drafts = request.is_followed && !request.has_ended;
    request.drafted = Draft(b, drafts ? shape : std::nullopt);
    trees_.push_back(request.drafted.tree);
  }
}

void SimulatedDecoding::SetRunning() {
  running_.clear();
  for (int b = 0; b < batch_.requests; ++b) {
    if (requests_[b].arrives || requests_[b].has_ended) continue;
    running_.push_back(b);
  }
}

void SimulatedDecoding::Arrive() {
  for (Request& request : requests_) {
    request.arrives = request.has_ended;
    request.has_ended = false;
  }
}

void SimulatedDecoding::Begin(int followed) {
  for (Request& request : requests_) {
    if (!request.arrives) continue;
    request = {.left = batch_.tokens_each, .is_followed = followed > 0};
    ++num_arrivals_;
    num_followed_ += followed > 0 ? 1 : 0;
    --followed;
  }
}

void SimulatedDecoding::ForgetChosen() {
  chosen_ = {};
  num_arrivals_ = 0;
  num_followed_ = 0;
}

std::vector<int32_t> SimulatedDecoding::EmittedBy(
    const Drafted& of, const std::vector<int32_t>& nodes) {
  std::vector<int32_t> emitted;
  for (const int32_t node : nodes) {
    if (node != 0 && of.right[node]) emitted.push_back(of.tree.token[node]);
  }
  // The model's own token, which a child that was not verified may carry.
  int last = 0;
  for (const int32_t node : nodes) last = of.right[node] ? node : last;
  int32_t own = 100;
  for (int i = last + 1; i < of.tree.size(); ++i) {
    if (of.tree.parent[i] == last && of.right[i]) own = of.tree.token[i];
  }
  emitted.push_back(own);
  return emitted;
}

double SimulatedDecoding::Verify(const Lent& lent, RoundPolicy* observer,
                                 bool is_first,
                                 const std::optional<DraftShape>& draft) {
  const std::vector<TreeBounds> bounds =
      lent.bounds.empty()
          ? std::vector<TreeBounds>(trees_.size(),
                                    {.cap = worker_.limits.max_nodes_per_tree})
          : lent.bounds;
  const auto requests = static_cast<int>(running_.size());
  const std::vector<NodeRef> selected =
      SelectNodes(trees_, std::max(lent.budget, requests), bounds);
  std::vector<std::vector<int32_t>> nodes(trees_.size());
  for (const NodeRef ref : selected) nodes[ref.tree].push_back(ref.node);
  double tokens = 0;
  int followed = 0;
  std::vector<std::vector<int32_t>> emitted(trees_.size());
  std::vector<TreeReport> reports;
  for (size_t b = 0; b < trees_.size(); ++b) {
    Request& request = requests_[running_[b]];
    const Drafted& of = request.drafted;
    followed += request.is_followed ? 1 : 0;
    if (request.has_ended) continue;  // In a lease.
    emitted[b] = EmittedBy(of, nodes[b]);
    const double says =
        batch_.quality[running_[b] % batch_.quality.size()].says;
    for (const int32_t node : nodes[b]) {
      tokens += std::exp(of.tree.log_rho[node] / says);
    }
    reports.push_back({.tree = of.tree,
                       .selected = nodes[b],
                       .emitted = emitted[b],
                       .accepted = static_cast<int>(emitted[b].size()) - 1,
                       .acceptance = &request.acceptance});
    request.left -= static_cast<int>(emitted[b].size());
    request.has_ended = batch_.tokens_each > 0 && request.left <= 0;
  }
  // What the worker takes: rows are padded.
  const auto num_nodes = static_cast<int>(selected.size());
  const PlannedWork work{.rows = num_nodes,
                         .requests = requests,
                         .kv_tokens = requests * batch_.kv_tokens_each,
                         .prefill_tokens = lent.prefill_tokens,
                         .draft = draft,
                         .drafted = followed};
  const CostModel truth(table_, worker_.row_buckets);
  const double seconds = truth.Seconds(work) / speed_;
  now_ += seconds + (is_first ? trip_seconds_ : 0);
  if (observer != nullptr) {
    RoundReport report{.quantities = QuantitiesOf(work),
                       .step_seconds = seconds,
                       .trip_seconds = trip_seconds_,
                       .is_first = is_first,
                       .trees = {}};
    if (is_first) report.trees = reports;
    observer->Observe(report);
  }
  return tokens;
}

RoundChoice SimulatedDecoding::Ask(RoundPolicy& policy) {
  Arrive();
  const int arrivals = batch_.requests - static_cast<int>(running_.size());
  std::vector<SequenceView> sequences;
  for (const int b : running_) {
    sequences.push_back({.acceptance = &requests_[b].acceptance,
                         .is_followed = requests_[b].is_followed});
  }
  RoundChoice choice =
      policy.Choose({.sequences = sequences,
                     .trees = trees_,
                     .kv_tokens = std::ssize(running_) * batch_.kv_tokens_each,
                     .prefill_tokens = int64_t{arrivals} * batch_.prompt_tokens,
                     .prefilling = arrivals,
                     .arrivals = arrivals,
                     .arrival_tokens = batch_.prompt_tokens,
                     .joining = arrivals,
                     .joining_arrivals = arrivals,
                     .now = now_});
  const int kind = !choice.draft ? 0 : choice.draft->top_k == 1 ? 1 : 2;
  chosen_[kind] += choice.lease_rounds;
  return choice;
}

double SimulatedDecoding::Run(RoundPolicy& policy, int rounds) {
  const double start = now_;
  double tokens = 0;
  for (int round = 0; round < rounds;) {
    const RoundChoice choice = Ask(policy);
    const auto arrivals =
        std::count_if(requests_.begin(), requests_.end(),
                      [](const Request& request) { return request.arrives; });
    if (running_.empty()) ++round;
    const bool follows = choice.draft || choice.defers_draft;
    const int rounds_of_plan = running_.empty() ? 0 : choice.lease_rounds;
    for (int i = 0; i < rounds_of_plan; ++i, ++round) {
      const Lent lent =
          i == 0 ? Lent{choice.budget, choice.bounds,
                        static_cast<int>(arrivals) * batch_.prompt_tokens}
                 : Lent{choice.lease_budget, choice.lease_bounds};
      const bool is_last = i + 1 == choice.lease_rounds;
      tokens += Verify(lent, &policy, i == 0, choice.draft);
      if (!is_last) DraftAll(choice.draft);
    }
    for (Request& request : requests_) {
      request.is_followed = request.is_followed && follows;
    }
    Begin(follows ? choice.followed_arrivals : 0);
    SetRunning();
    DraftAll(choice.draft);
  }
  return tokens / (now_ - start);
}

double SimulatedDecoding::Run(const FixedChoice& choice, int rounds) {
  const double start = now_;
  double tokens = 0;
  for (int round = 0; round < rounds; ++round) {
    const bool is_first = round % choice.lease_rounds == 0;
    if (is_first) {
      Begin(batch_.requests);
      SetRunning();
      Arrive();
    }
    DraftAll(choice.draft);
    tokens += Verify({.budget = choice.budget, .bounds = {}}, nullptr, is_first,
                     choice.draft);
  }
  return tokens / (now_ - start);
}

}  // namespace bole::testing
