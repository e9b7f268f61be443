// Rounds that are captured before they come, on the demo model and a backend
// that keeps keys in the place of graphs.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/packed_forest.h"
#include "common/proposal_tree.h"
#include "common/select_nodes.h"
#include "common/step.h"
#include "common/trim_tree.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "tests/testing/random_tree.h"
#include "tests/worker_service/eval/demo_model.h"
#include "worker_service/engine/engine.h"
#include "worker_service/engine/round_shape.h"

namespace bole::testing_support {
namespace {

// What operators were given: where their arrays are, and how large.
using Calls = std::vector<std::variant<const void*, int>>;

// Runs everything, as a set that has a graph would, and minds that it is what a
// graph of that key would have run.
class KeySet final : public GraphSet {
 public:
  // `calls` are noted by the backend.
  KeySet(int capacity, Calls& calls) : capacity_(capacity), calls_(calls) {}

  int capacity() const override { return capacity_; }
  int64_t num_misses() const override { return num_misses_; }
  absl::Status Replay(const GraphKey& key,
                      const std::function<absl::Status()>& queue) override {
    calls_.clear();
    absl::Status status = queue();
    const auto [kept, is_new] = keys_.try_emplace(key, calls_);
    if (is_new) ++num_misses_;
    EXPECT_FALSE(kept->second.empty());
    EXPECT_TRUE(kept->second == calls_)
        << "another graph for " << ::testing::PrintToString(key);
    EXPECT_LE(std::ssize(keys_), capacity_);
    return status;
  }

 private:
  const int capacity_;
  Calls& calls_;
  std::map<GraphKey, Calls> keys_;
  int64_t num_misses_ = 0;
};

class KeepingBackend final : public ReferenceBackend {
 public:
  KeepingBackend() : ReferenceBackend(/*num_threads=*/1) {}

  std::unique_ptr<GraphSet> MakeGraphs(int capacity) override {
    return std::make_unique<KeySet>(capacity, calls_);
  }
  absl::Status Embed(const EmbedParams& p) override {
    calls_.insert(calls_.end(), {p.rows.count, p.rows.max, p.token, p.out});
    return ReferenceBackend::Embed(p);
  }
  absl::Status Attend(const AttentionParams& p) override {
    const RowBatch& batch = p.batch;
    calls_.insert(
        calls_.end(),
        {batch.max_requests, batch.max_pages, batch.mask_words, batch.max_path,
         batch.rows.count, batch.rows.max, batch.first_row, batch.request,
         batch.node, batch.depth, batch.committed, batch.page_table});
    if (batch.mask_words > 0) calls_.emplace_back(batch.ancestors);
    return ReferenceBackend::Attend(p);
  }
  absl::Status Sample(const SampleParams& p) override {
    calls_.insert(calls_.end(),
                  {p.token, p.control, p.first_bias, p.bias_token, p.bias,
                   p.first_stop, p.stop_token, p.path_first, p.emitted,
                   p.logprob, p.top_token, p.accepted, p.next_token});
    return ReferenceBackend::Sample(p);
  }
  absl::Status ExtendRows(const ExtendRowsParams& p) override {
    calls_.insert(calls_.end(),
                  {p.max_requests, p.max_rows, p.path.first, p.token,
                   p.next_token, p.committed, p.num_extended});
    return ReferenceBackend::ExtendRows(p);
  }
  absl::Status StoreHidden(const StoreHiddenParams& p) override {
    calls_.insert(calls_.end(),
                  {p.batch.max_requests, p.max_path_rows, p.batch.slot,
                   p.batch.committed, p.path.first, p.hidden});
    return ReferenceBackend::StoreHidden(p);
  }
  absl::Status GrowTrees(const GrowTreesParams& p) override {
    calls_.insert(calls_.end(),
                  {p.max_requests, p.requests.count, p.shape.top_k, p.level,
                   p.trees.token, p.trees.parent, p.trees.log_rho});
    return ReferenceBackend::GrowTrees(p);
  }

 private:
  Calls calls_;
};

class EngineWarmUpTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    backend_ = new KeepingBackend;
    absl::StatusOr<LoadedModel> model = LoadModel("models/demo", *backend_);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = new LoadedModel(*std::move(model));
  }
  static void TearDownTestSuite() {
    delete model_;
    delete backend_;
  }

  static std::unique_ptr<Engine> MakeEngine(const GenerateOptions& options) {
    auto engine = Engine::Create(model_->config, *model_->weights, *backend_,
                                 EngineOptionsFor(options, /*max_context=*/200,
                                                  model_->num_valid_tokens()));
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

  // Texts of several lengths, of more requests than run together.
  static std::vector<std::vector<int32_t>> Texts(
      Engine& engine, const GenerateOptions& options) {
    const auto prompts = DemoModel::Get().Prompts();
    std::vector<GenerateRequest> requests(5);
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].prompt = prompts[i];
      requests[i].sampling.max_tokens = 3 + 4 * static_cast<int>(i);
      requests[i].sampling.temperature = i % 2 == 0 ? 0 : 0.7f;
    }
    const auto results = Generate(engine, options, requests, nullptr);
    EXPECT_TRUE(results.ok()) << results.status();
    std::vector<std::vector<int32_t>> texts;
    for (const GenerateResult& result : *results) {
      texts.push_back(Tokens(result));
    }
    return texts;
  }

  static KeepingBackend* backend_;
  static LoadedModel* model_;
};
KeepingBackend* EngineWarmUpTest::backend_ = nullptr;
LoadedModel* EngineWarmUpTest::model_ = nullptr;

// Sequences side by side, whose rounds are drawn: their drafts, or that there
// is none, their budgets, and leases of them.
class AnyRounds {
 public:
  AnyRounds(Engine& engine, const RoundProfile& profile)
      : engine_(engine), profile_(profile) {
    const int pages = engine.limits().num_pages / engine.limits().max_requests;
    StepPlan plan{.draft = profile.drafts.front()};
    const auto prompts = DemoModel::Get().Prompts();
    for (int b = 0; b < engine.limits().max_requests; ++b) {
      Sequence& sequence = sequences_.emplace_back();
      sequence.tokens = {prompts[b].begin(), prompts[b].begin() + 12 + b};
      sequence.plan.slot = SlotId(b);
      sequence.plan.max_new_tokens = 190;
      sequence.plan.prompt_length = 12 + b;
      for (int i = 0; i < pages; ++i) {
        sequence.plan.pages.emplace_back(b * pages + i);
      }
      plan.prefills.push_back(
          {.sequence = sequence.plan, .tokens = sequence.tokens});
      running_.push_back(b);
    }
    Take(plan, *engine.Step(plan));
  }

  // Draws a plan and runs it.
  void Run(std::mt19937& rng) {
    using ::bole::testing::UniformInt;
    StepPlan plan;
    const int num_drafts = static_cast<int>(profile_.drafts.size());
    const int draft = UniformInt(rng, 0, num_drafts);
    if (draft < num_drafts) plan.draft = profile_.drafts[draft];
    plan.defers_draft = !plan.draft;
    running_.clear();
    std::vector<ProposalTree> trees;
    for (int b = 0; b < std::ssize(sequences_); ++b) {
      if (UniformInt(rng, 0, 2) == 0) continue;
      running_.push_back(b);
      Sequence& sequence = sequences_[b];
      trees.push_back(TrimTree(sequence.tree, /*max_nodes=*/40, 190));
      plan.sequences.push_back(sequence.plan);
      const auto pending = sequence.tokens.begin() + sequence.plan.committed;
      plan.sequences.back().draft_tail = {
          pending + 1 - (sequence.plan.committed - sequence.seen), pending + 1};
      sequence.seen = sequence.plan.committed;
    }
    if (running_.empty()) return;
    const int count = static_cast<int>(running_.size());
    const int nodes = UniformInt(rng, 1, engine_.limits().max_nodes_per_tree);
    const int budget = std::min(UniformInt(rng, count, count * nodes),
                                engine_.limits().max_nodes);
    plan.forest = PackForest(trees, SelectNodes(trees, budget, nodes)).forest;
    if (UniformInt(rng, 0, 1) == 0) {
      plan.lease = {.rounds = 2,
                    .budget = budget + 1,
                    .max_nodes_per_tree = nodes,
                    .bounds = std::vector(count, TreeBounds{.cap = nodes})};
    }
    const absl::Status status = engine_.Step(
        plan, [&](const StepResult& result) { Take(plan, result); });
    EXPECT_TRUE(status.ok()) << status;
  }
  bool has_room() const {
    return std::ranges::all_of(sequences_, [](const Sequence& sequence) {
      return sequence.plan.committed < 160;
    });
  }

 private:
  struct Sequence {
    SequencePlan plan;
    std::vector<int32_t> tokens;
    ProposalTree tree;
    int seen = 0;
  };

  void Take(const StepPlan& plan, const StepResult& result) {
    const auto& results =
        plan.prefills.empty() ? result.sequences : result.prefills;
    for (size_t i = 0; i < running_.size(); ++i) {
      Sequence& sequence = sequences_[running_[i]];
      sequence.plan.committed = results[i].committed;
      for (const EmittedToken& token : results[i].emitted) {
        sequence.tokens.push_back(token.token);
      }
      sequence.tree = results[i].proposal.value_or(
          ProposalTree{.parent = {kNoParent},
                       .token = {sequence.tokens.back()},
                       .log_rho = {0}});
      if (plan.draft) sequence.seen = sequence.plan.committed;
    }
  }

  Engine& engine_;
  const RoundProfile profile_;
  std::vector<Sequence> sequences_;
  std::vector<int> running_;
};

// And graphs that are used for another shape than they were captured for run
// what that shape needs (KeySet).
TEST_F(EngineWarmUpTest, NoRoundOfAnyPolicyIsCapturedWhileItServes) {
  GenerateOptions options = Tree(30, 3);
  options.draft = DraftShape{.top_k = 3, .depth = 5};
  for (const bool time_phases : {false, true}) {
    EngineOptions sizes =
        EngineOptionsFor(options, 200, model_->num_valid_tokens());
    sizes.time_phases = time_phases;
    const auto engine =
        Engine::Create(model_->config, *model_->weights, *backend_, sizes);
    ASSERT_TRUE(engine.ok()) << engine.status();
    ASSERT_TRUE((*engine)->WarmUp([](int, int) { return true; }).ok());
    const RoundProfile profile = UsualProfile(sizes, /*has_drafter=*/true);
    std::mt19937 rng(1);
    AnyRounds rounds(**engine, profile);
    while (rounds.has_room() && !HasFailure()) rounds.Run(rng);
    EXPECT_EQ((*engine)->graph_misses(), 0);
  }
}

TEST_F(EngineWarmUpTest, ItsBucketsAreThoseOfItsRounds) {
  const GenerateOptions options = Tree(9, 3);
  const std::unique_ptr<Engine> engine = MakeEngine(options);

  EXPECT_EQ(engine->row_buckets(), (std::vector<int>{1, 2, 4, 8, 16, 30}));
  EXPECT_EQ(engine->request_buckets(), (std::vector<int>{1, 2, 3}));
}

TEST_F(EngineWarmUpTest, NoRoundOfAUsualSchedulerIsCapturedWhileItServes) {
  GenerateOptions options = Tree(9, 3);
  for (const int lease : {1, 4}) {
    options.lease_rounds = lease;
    const std::unique_ptr<Engine> cold = MakeEngine(options);
    const std::unique_ptr<Engine> warm = MakeEngine(options);
    std::vector<int> progress;

    const absl::Status status = warm->WarmUp([&](int done, int total) {
      progress.push_back(done);
      EXPECT_LE(done, total);
      return true;
    });

    ASSERT_TRUE(status.ok()) << status;
    EXPECT_GT(progress.size(), 5u);
    EXPECT_EQ(warm->graph_misses(), 0);
    // Slots and pages were not touched.
    EXPECT_EQ(Texts(*warm, options), Texts(*cold, options));
    EXPECT_EQ(warm->graph_misses(), 0);
    EXPECT_GT(cold->graph_misses(), 0);
  }
}

TEST_F(EngineWarmUpTest, StopsWhenItIsTold) {
  const GenerateOptions options = Tree(9, 3);
  const std::unique_ptr<Engine> engine = MakeEngine(options);

  int last = 0;
  const absl::Status status = engine->WarmUp([&](int done, int) {
    last = done;
    return done < 2;
  });

  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(last, 2);
  Texts(*engine, options);
  EXPECT_GT(engine->graph_misses(), 0);
}

TEST_F(EngineWarmUpTest, ABackendWithoutGraphsHasNothingToDo) {
  EngineOptions options =
      EngineOptionsFor(Tree(9, 3), 200, model_->num_valid_tokens());
  options.graphs = false;
  const auto engine =
      Engine::Create(model_->config, *model_->weights, *backend_, options);
  ASSERT_TRUE(engine.ok()) << engine.status();

  const absl::Status status = (*engine)->WarmUp([](int, int) {
    ADD_FAILURE() << "nothing to capture";
    return true;
  });

  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ((*engine)->num_graphs(), 0);
  EXPECT_TRUE((*engine)->row_buckets().empty());
  EXPECT_TRUE((*engine)->request_buckets().empty());
}

}  // namespace
}  // namespace bole::testing_support
