// A forward on several ranks: the same bits on all of them, and those of one
// rank but for the order of sums. Logits and states are compared, because text
// may look right where heads are paired wrongly.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/packed_forest.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/collectives.h"
#include "kernels/communicator.h"
#include "kernels/reference/reference_backend.h"
#include "tests/testing/matrices.h"
#include "tests/worker_service/ranks/on_ranks.h"
#include "tests/worker_service/ranks/random_model.h"
#include "worker_service/eval/forward.h"
#include "worker_service/loading/draft_weights.h"
#include "worker_service/loading/loaded_model.h"
#include "worker_service/model/model_config.h"

namespace bole::testing {
namespace {

using Load = std::function<absl::StatusOr<LoadedModel>(Backend&)>;

// Keeps a copy of what every rank must have alike: the residual stream and its
// norm after each sum, and gathered rows.
class TracedBackend final : public ReferenceBackend {
 public:
  explicit TracedBackend(std::unique_ptr<Communicator> ranks)
      : ReferenceBackend(/*num_threads=*/1, std::move(ranks)) {}

  absl::Status AllReduceAddNorm(const AllReduceAddNormParams& params) override {
    absl::Status status = ReferenceBackend::AllReduceAddNorm(params);
    Keep(params.residual, params.rows, params.width);
    Keep(params.out, params.rows, params.width);
    return status;
  }
  absl::Status AllGather(const AllGatherParams& params) override {
    absl::Status status = ReferenceBackend::AllGather(params);
    int width = 0;
    for (const int of_rank : params.widths) width += of_rank;
    Keep(params.values, params.rows, width);
    return status;
  }

  const std::vector<std::vector<float>>& trace() const { return trace_; }

 private:
  void Keep(const void* values, const RowCount& rows, int width) {
    const auto* first = static_cast<const float*>(values);
    trace_.emplace_back(first,
                        first + static_cast<size_t>(*rows.count) * width);
  }

  std::vector<std::vector<float>> trace_;
};

struct RankResult {
  ForwardResult forward;
  std::vector<std::vector<float>> trace;
};

std::vector<RankResult> ForwardOn(int n, const Load& load,
                                  const ForwardOptions& options) {
  std::vector<RankResult> results(static_cast<size_t>(n));
  OnRanks(n, [&](std::unique_ptr<Communicator> own) {
    const size_t rank = static_cast<size_t>(own->rank().index);
    TracedBackend backend(std::move(own));
    const absl::StatusOr<LoadedModel> model = load(backend);
    ASSERT_TRUE(model.ok()) << model.status();
    absl::StatusOr<ForwardResult> forward =
        RunForward(*model, backend, options);
    ASSERT_TRUE(forward.ok()) << forward.status();
    results[rank] = {*std::move(forward), backend.trace()};
  });
  return results;
}

ForwardOptions RandomOptions(int vocabulary, int chunk) {
  std::mt19937 rng(5);
  ForwardOptions options{.ids = {}, .tree = NodeList{}, .chunk = chunk};
  const auto token = [&] { return static_cast<int32_t>(rng() % vocabulary); };
  for (int i = 0; i < 90; ++i) options.ids.push_back(token());
  // A chain of five nodes, and two more children of each but the last.
  for (int32_t i = 0; i < 13; ++i) {
    options.tree->token.push_back(token());
    options.tree->parent.push_back(i == 0 ? kNoParent : (i - 1) / 3 * 3);
  }
  return options;
}

// The ranks' states of a layer, one head after the other.
std::vector<float> JoinedStates(const std::vector<RankResult>& ranks,
                                const std::string& name) {
  std::vector<float> joined;
  for (const RankResult& rank : ranks) {
    const std::vector<float>& part = rank.forward.floats.at(name).values;
    joined.insert(joined.end(), part.begin(), part.end());
  }
  return joined;
}

// Each product's sum over the ranks is rounded in another order than one
// rank's: by some units in the last place, 2^-23, of a sum of about a hundred
// addends, in each of the model's sums (two a layer, 18 at most), which the
// layers after it may enlarge. A head or a column in the wrong place is an
// error of 0.01 or more.
constexpr double kTolerance = 3e-5;

void ExpectRanksAgree(const Load& load, const ForwardOptions& options,
                      const std::vector<int>& counts) {
  const ForwardResult want = ForwardOn(1, load, options)[0].forward;
  for (const int n : counts) {
    SCOPED_TRACE(n);
    const std::vector<RankResult> ranks = ForwardOn(n, load, options);
    ASSERT_FALSE(ranks[0].trace.empty());
    for (const RankResult& rank : ranks) {
      ASSERT_EQ(rank.trace.size(), ranks[0].trace.size());
      for (size_t i = 0; i < rank.trace.size(); ++i) {
        ASSERT_TRUE(SameBits(rank.trace[i], ranks[0].trace[i])) << i;
      }
      EXPECT_EQ(rank.forward.ints, want.ints);
    }
    int num_states = 0;
    for (const auto& [name, floats] : want.floats) {
      SCOPED_TRACE(name);
      if (name.starts_with("conv.")) continue;
      const bool is_state = name.starts_with("state.");
      num_states += is_state ? 1 : 0;
      const std::vector<float> got =
          is_state ? JoinedStates(ranks, name)
                   : ranks[0].forward.floats.at(name).values;
      ASSERT_EQ(got.size(), floats.values.size());
      EXPECT_LE(RelativeRmsError(got, floats.values), kTolerance);
    }
    EXPECT_GT(num_states, 0);
    EXPECT_TRUE(want.floats.contains("tree_logits"));
    EXPECT_TRUE(want.floats.contains("draft_logits"));
  }
}

TEST(RankForwardTest, ADenseModelIsThatOfOneRank) {
  const RandomModel model(SmallDenseConfig(), 1);
  ExpectRanksAgree([&](Backend& backend) { return model.Load(backend); },
                   RandomOptions(1300, /*chunk=*/0), {2, 4});
}

TEST(RankForwardTest, ATiedModelInChunksIsThatOfOneRank) {
  ModelConfig config = SmallDenseConfig();
  config.tie_word_embeddings = true;
  const RandomModel model(config, 2);
  ExpectRanksAgree([&](Backend& backend) { return model.Load(backend); },
                   RandomOptions(1300, /*chunk=*/37), {2, 4});
}

// The shared expert is part of each rank's sum, once.
TEST(RankForwardTest, AMixtureOfExpertsIsThatOfOneRank) {
  const RandomModel model(SmallMoeConfig(), 3);
  ExpectRanksAgree([&](Backend& backend) { return model.Load(backend); },
                   RandomOptions(1300, /*chunk=*/0), {2, 4});
}

TEST(RankForwardTest, PublishedLayoutsAreThoseOfOneRank) {
  for (const auto& model : std::vector<std::pair<std::string, int>>{
           {"tests/golden/dense", 512},
           {"tests/golden/dense_flat_tied_bf16", 512},
           {"tests/golden/moe", 512},
           {"models/demo", 8192},
           {"synthetic:tiny,noise=1", 2048},
           {"synthetic:tiny-moe,noise=1", 2048}}) {
    SCOPED_TRACE(model.first);
    ExpectRanksAgree(
        [&](Backend& backend) { return LoadModel(model.first, backend); },
        RandomOptions(model.second, /*chunk=*/0), {2});
  }
}

TEST(RankForwardTest, AModelThatDoesNotDivideIsNotLoaded) {
  OnRanks(4, [](std::unique_ptr<Communicator> own) {
    ReferenceBackend backend(/*num_threads=*/1, std::move(own));
    EXPECT_EQ(LoadModel("tests/golden/dense", backend).status(),
              absl::InvalidArgumentError(
                  "linear_attn.in_proj_qkv.weight: linear_num_key_heads 2 does "
                  "not divide among 4 ranks"));
  });
}

TEST(RankForwardTest, RanksDraftAlikeWithSevenBitsOfTheirParts) {
  const RandomModel random(SmallDenseConfig(), 5);
  const auto load = [&](Backend& backend) -> absl::StatusOr<LoadedModel> {
    absl::StatusOr<LoadedModel> model = random.Load(backend);
    if (!model.ok()) return model;
    const absl::Status status =
        SetDraftWeights(DraftWeights::kInt7, backend, *model->weights);
    if (!status.ok()) return status;
    return model;
  };
  const ForwardOptions options = RandomOptions(1300, /*chunk=*/0);
  const std::vector<float> full =
      ForwardOn(
          1, [&](Backend& backend) { return random.Load(backend); }, options)[0]
          .forward.floats.at("draft_logits")
          .values;
  const std::vector<RankResult> ranks = ForwardOn(2, load, options);
  ASSERT_FALSE(ranks[0].trace.empty());
  ASSERT_EQ(ranks[0].trace.size(), ranks[1].trace.size());
  for (size_t i = 0; i < ranks[0].trace.size(); ++i) {
    ASSERT_TRUE(SameBits(ranks[0].trace[i], ranks[1].trace[i])) << i;
  }
  const double error =
      RelativeRmsError(ranks[0].forward.floats.at("draft_logits").values, full);
  EXPECT_GT(error, kTolerance);
  EXPECT_LT(error, 0.05);
}

}  // namespace
}  // namespace bole::testing
