// What an engine makes of a model that computes NaN, on the demo checkpoint:
// one sequence fails by name, the others write what they always wrote.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/packed_forest.h"
#include "common/proposal_tree.h"
#include "common/select_nodes.h"
#include "common/trim_tree.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "tests/worker_service/eval/demo_model.h"
#include "worker_service/engine/engine.h"

namespace bole::testing_support {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int kMaxContext = 256;
constexpr int kNodes = 12;
constexpr int kRequests = 3;
constexpr int kMaxTokens = 24;

// The reference, with NaN put where a test wants it.
class PoisonedBackend final : public ReferenceBackend {
 public:
  PoisonedBackend() : ReferenceBackend(/*num_threads=*/1) {}

  absl::Status GdnConv(const GdnConvParams& params) override {
    absl::Status status = ReferenceBackend::GdnConv(params);
    const RowBatch& batch = params.batch;
    auto* q = reinterpret_cast<float*>(params.q);
    const int width = params.shape.key_width();
    for (int row = 0; row < *batch.rows.count; ++row) {
      const int request = batch.request[row];
      const int position = batch.committed[request] + batch.depth[row];
      if (batch.slot[request] != bad_slot || position < bad_position) continue;
      std::fill_n(q + static_cast<int64_t>(row) * width, width, kNan);
    }
    return status;
  }
  absl::Status TopK(const TopKParams& params) override {
    if (drafts_are_bad) {
      std::fill_n(const_cast<float*>(params.logits),
                  static_cast<int64_t>(*params.rows.count) * params.vocabulary,
                  kNan);
    }
    return ReferenceBackend::TopK(params);
  }

  // The target computes NaN for that slot from that position on.
  int bad_slot = -1;
  int bad_position = 0;
  bool drafts_are_bad = false;
};

struct Text {
  std::vector<int32_t> tokens;
  std::optional<int32_t> bad_position;
};

class BadLogitsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    backend_ = new PoisonedBackend;
    absl::StatusOr<LoadedModel> model = LoadModel("models/demo", *backend_);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = new LoadedModel(*std::move(model));
  }
  static void TearDownTestSuite() {
    delete model_;
    delete backend_;
  }
  void TearDown() override {
    backend_->bad_slot = -1;
    backend_->drafts_are_bad = false;
  }

  // Texts of kMaxTokens after three prompts, in rounds of the host or leased.
  std::vector<Text> Run(const std::optional<DraftShape>& draft, int rounds) {
    const GenerateOptions sizes{
        .draft = draft, .max_nodes_per_tree = kNodes, .max_batch = kRequests};
    auto engine = Engine::Create(
        model_->config, *model_->weights, *backend_,
        EngineOptionsFor(sizes, kMaxContext, model_->num_valid_tokens()));
    EXPECT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    draft_ = draft;
    texts_.assign(kRequests, {});
    trees_.assign(kRequests, {});
    Prefill();
    while (!AllEnded() && !HasFailure()) RunRounds(rounds);
    return texts_;
  }

  bool HasEnded(int b) const {
    return texts_[b].bad_position.has_value() ||
           std::ssize(texts_[b].tokens) >= kMaxTokens;
  }
  bool AllEnded() const { return HasEnded(0) && HasEnded(1) && HasEnded(2); }

  void Prefill() {
    const auto prompts = DemoModel::Get().Prompts();
    const int pages = engine_->limits().num_pages / kRequests;
    StepPlan plan{.draft = draft_};
    sequences_.assign(kRequests, {});
    for (int b = 0; b < kRequests; ++b) {
      SequencePlan& sequence = sequences_[b];
      sequence.slot = SlotId(b);
      sequence.max_new_tokens = kMaxTokens;
      sequence.prompt_length = static_cast<int32_t>(prompts[b].size());
      sequence.sampling.temperature = b == 2 ? 0.7f : 0;
      for (int i = 0; i < pages; ++i) {
        sequence.pages.emplace_back(b * pages + i);
      }
      plan.prefills.push_back({.sequence = sequence, .tokens = prompts[b]});
    }
    const absl::StatusOr<StepResult> result = engine_->Step(plan);
    ASSERT_TRUE(result.ok()) << result.status();
    for (int b = 0; b < kRequests; ++b) Take(b, result->prefills[b]);
  }

  void RunRounds(int rounds) {
    StepPlan plan{.draft = draft_};
    std::vector<ProposalTree> trees;
    std::vector<int> running;
    for (int b = 0; b < kRequests; ++b) {
      if (HasEnded(b)) continue;
      running.push_back(b);
      plan.sequences.push_back(sequences_[b]);
      trees.push_back(TrimTree(trees_[b], kMaxContext - sequences_[b].committed,
                               sequences_[b].max_new_tokens));
    }
    const int nodes = draft_ ? kNodes : 1;
    const int budget = nodes * static_cast<int>(running.size());
    plan.forest = PackForest(trees, SelectNodes(trees, budget, nodes)).forest;
    if (rounds > 1) {
      plan.lease = {
          .rounds = rounds, .budget = budget, .max_nodes_per_tree = nodes};
    }
    const absl::Status status =
        engine_->Step(plan, [&](const StepResult& result) {
          for (size_t i = 0; i < running.size(); ++i) {
            ExpectNoNodesOfEnded(result, running[i], i);
            Take(running[i], result.sequences[i]);
          }
        });
    ASSERT_TRUE(status.ok()) << status;
  }

  void ExpectNoNodesOfEnded(const StepResult& result, int b, size_t place) {
    if (!HasEnded(b)) return;
    EXPECT_TRUE(result.sequences[place].emitted.empty());
    EXPECT_FALSE(result.sequences[place].bad_logits_position.has_value());
    if (!result.forest) return;
    EXPECT_EQ(result.forest->first_node[place],
              result.forest->first_node[place + 1]);
  }

  void Take(int b, const SequenceResult& result) {
    SequencePlan& sequence = sequences_[b];
    if (sequence.committed > 0) {
      EXPECT_EQ(result.committed,
                sequence.committed + std::ssize(result.emitted));
    }
    sequence.committed = result.committed;
    sequence.max_new_tokens -= static_cast<int>(result.emitted.size());
    for (const EmittedToken& token : result.emitted) {
      texts_[b].tokens.push_back(token.token);
      trees_[b] = {
          .parent = {kNoParent}, .token = {token.token}, .log_rho = {0}};
    }
    EXPECT_LE(result.accepted_drafts, std::ssize(result.emitted));
    if (result.bad_logits_position) {
      texts_[b].bad_position = result.bad_logits_position;
      EXPECT_EQ(result.accepted_drafts, std::ssize(result.emitted));
      EXPECT_FALSE(result.proposal.has_value());
    }
    if (!result.proposal) return;
    const absl::Status valid = Validate(*result.proposal);
    EXPECT_TRUE(valid.ok()) << valid;
    for (const int32_t token : result.proposal->token) {
      EXPECT_LT(token, model_->num_valid_tokens());
    }
    trees_[b] = *result.proposal;
  }

  static PoisonedBackend* backend_;
  static LoadedModel* model_;
  std::unique_ptr<Engine> engine_;
  std::optional<DraftShape> draft_;
  std::vector<SequencePlan> sequences_;
  std::vector<ProposalTree> trees_;
  std::vector<Text> texts_;
};
PoisonedBackend* BadLogitsTest::backend_ = nullptr;
LoadedModel* BadLogitsTest::model_ = nullptr;

constexpr DraftShape kTree{.top_k = 3, .depth = 4};

// NaN reaches hidden vectors, states, keys and drafts of the sequence. Its
// tokens up to where it fails are emitted: that is the position, or with drafts
// the root of a tree that has nodes there.
TEST_F(BadLogitsTest, ASequenceFailsAtItsPositionAndTheOthersGoOn) {
  const std::vector<Text> good = Run(kTree, /*rounds=*/1);
  const auto prompts = DemoModel::Get().Prompts();
  int case_number = 0;
  for (const std::optional<DraftShape>& draft :
       {std::optional<DraftShape>(), std::optional<DraftShape>(kTree)}) {
    for (const int rounds : {1, kMaxLeaseRounds}) {
      const int b = case_number++ % kRequests;
      const int before = 7 + case_number;  // Tokens.
      SCOPED_TRACE(::testing::Message() << (draft ? "trees, " : "no drafts, ")
                                        << rounds << " rounds, sequence " << b);
      const int position = static_cast<int>(prompts[b].size()) + before - 1;
      backend_->bad_slot = b;
      backend_->bad_position = position;

      const std::vector<Text> texts = Run(draft, rounds);

      for (int other = 0; other < kRequests; ++other) {
        if (other == b) continue;
        EXPECT_EQ(texts[other].tokens, good[other].tokens);
        EXPECT_FALSE(texts[other].bad_position.has_value());
      }
      ASSERT_TRUE(texts[b].bad_position.has_value());
      const int early = position - *texts[b].bad_position;
      EXPECT_GE(early, 0);
      EXPECT_LE(early, draft ? draft->depth : 0);
      const std::vector<int32_t>& own = good[b].tokens;
      EXPECT_EQ(
          texts[b].tokens,
          std::vector<int32_t>(own.begin(), own.begin() + before - early));
    }
  }
}

TEST_F(BadLogitsTest, APromptFailsAtItsLastPosition) {
  const std::vector<Text> good = Run(kTree, /*rounds=*/1);
  const auto prompts = DemoModel::Get().Prompts();
  backend_->bad_slot = 1;
  backend_->bad_position = 5;  // States and keys carry it on.

  const std::vector<Text> texts = Run(kTree, /*rounds=*/1);

  EXPECT_TRUE(texts[1].tokens.empty());
  EXPECT_EQ(texts[1].bad_position, std::ssize(prompts[1]) - 1);
  EXPECT_EQ(texts[0].tokens, good[0].tokens);
  EXPECT_EQ(texts[2].tokens, good[2].tokens);
}

// Take() checks that what is proposed is a tree of valid tokens.
TEST_F(BadLogitsTest, ADrafterThatComputesNanChangesNoText) {
  const std::vector<Text> good = Run(kTree, /*rounds=*/1);
  backend_->drafts_are_bad = true;

  for (const int rounds : {1, kMaxLeaseRounds}) {
    const std::vector<Text> texts = Run(kTree, rounds);

    for (int b = 0; b < kRequests; ++b) {
      EXPECT_EQ(texts[b].tokens, good[b].tokens);
      EXPECT_FALSE(texts[b].bad_position.has_value());
    }
  }
}

}  // namespace
}  // namespace bole::testing_support
