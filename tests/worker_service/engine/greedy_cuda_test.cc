// Greedy texts of the demo model on a GPU: they leave the reference's, and each
// other, only where rounding can turn a choice over.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/worker_service/eval/demo_model.h"
#include "tests/worker_service/eval/rounded_goldens.h"
#include "worker_service/eval/forward.h"
#include "worker_service/eval/generator.h"
#include "worker_service/loading/loaded_model.h"

namespace bole::testing_support {
namespace {

using Ids = std::vector<int32_t>;

// One of tests/golden/demo/greedy.json.
struct GreedyText {
  Ids prompt;
  Ids ids;                      // The reference's greedy continuation.
  std::vector<double> margins;  // Between the two best logits of each choice.
};

std::vector<GreedyText> ReadTexts() {
  std::vector<GreedyText> texts;
  for (const nlohmann::json& text : ReadGoldenJson("greedy.json")) {
    texts.push_back({text["prompt_ids"], text["greedy_ids"], text["margins"]});
  }
  return texts;
}

// Where two texts part.
std::optional<size_t> FirstDifference(const Ids& a, const Ids& b) {
  const auto place = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (place.first == a.end() && place.second == b.end()) return std::nullopt;
  return place.first - a.begin();
}

Ids Joined(const Ids& prompt, const Ids& ids, size_t count) {
  Ids all = prompt;
  all.insert(all.end(), ids.begin(), ids.begin() + count);
  return all;
}

class GreedyCudaTest : public testing::CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (cuda_ == nullptr) return;
    absl::StatusOr<LoadedModel> model = LoadModel("models/demo", *cuda_);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    texts_ = ReadTexts();
  }
  void TearDown() override { model_ = {}; }

  std::vector<Ids> Generated(const GenerateOptions& options) {
    std::vector<GenerateRequest> requests(texts_.size());
    int context = 0;
    for (size_t i = 0; i < texts_.size(); ++i) {
      requests[i].prompt = texts_[i].prompt;
      requests[i].sampling.temperature = 0;
      requests[i].sampling.max_tokens = static_cast<int>(texts_[i].ids.size());
      context = std::max(context, static_cast<int>(texts_[i].prompt.size() +
                                                   texts_[i].ids.size()));
    }
    const auto engine = Engine::Create(
        model_.config, *model_.weights, *cuda_,
        EngineOptionsFor(options, context, model_.num_valid_tokens()));
    EXPECT_TRUE(engine.ok()) << engine.status();
    const auto results = Generate(**engine, options, requests, nullptr);
    EXPECT_TRUE(results.ok()) << results.status();
    std::vector<Ids> tokens;
    for (const GenerateResult& result : *results) {
      tokens.push_back(Tokens(result));
    }
    return tokens;
  }

  // The largest error of a margin, over every choice of the reference's texts:
  // what this backend gives for them, read as prompts.
  double MarginNoise() {
    double noise = 0;
    for (const GreedyText& text : texts_) {
      const std::vector<float> logits = LogitsOf(
          model_, *cuda_, Joined(text.prompt, text.ids, text.ids.size()));
      const auto width = static_cast<size_t>(model_.config.vocab_size);
      for (size_t k = 0; k < text.ids.size(); ++k) {
        const size_t row = text.prompt.size() - 1 + k;
        const double margin =
            Margin(std::span(logits).subspan(row * width, width), text.ids[k]);
        noise = std::max(noise, std::abs(margin - text.margins[k]));
      }
    }
    return noise;
  }

  static std::vector<float> LogitsOf(const LoadedModel& model, Backend& backend,
                                     Ids ids) {
    absl::StatusOr<ForwardResult> result =
        RunForward(model, backend, {.ids = std::move(ids), .tree = {}});
    EXPECT_TRUE(result.ok()) << result.status();
    std::vector<float> logits = std::move(result->floats.at("logits").values);
    // std::max() lets it pass.
    EXPECT_TRUE(std::none_of(logits.begin(), logits.end(),
                             [](float x) { return std::isnan(x); }));
    return logits;
  }

  // The margin of a token's logit over the best of all others.
  static double Margin(std::span<const float> logits, int32_t token) {
    double best = -INFINITY;
    for (size_t i = 0; i < logits.size(); ++i) {
      if (static_cast<int32_t>(i) != token) {
        best = std::max(best, static_cast<double>(logits[i]));
      }
    }
    return logits[token] - best;
  }

  // How far apart the reference has the two tokens at which texts part.
  double MarginBetween(const GreedyText& text, const Ids& a, const Ids& b,
                       size_t place) const {
    DemoModel& demo = DemoModel::Get();
    const std::vector<float> logits =
        LogitsOf(demo.model(), demo.backend(), Joined(text.prompt, a, place));
    const auto last =
        std::span(logits).last(static_cast<size_t>(model_.config.vocab_size));
    return std::abs(static_cast<double>(last[a[place]]) - last[b[place]]);
  }

  // How many texts of `generated` are not `others`, each parting at a margin of
  // at most `noise`.
  int CountPartings(const std::string& what, const std::vector<Ids>& generated,
                    const std::vector<Ids>& others, double noise) {
    int count = 0;
    double largest = 0;
    for (size_t i = 0; i < texts_.size(); ++i) {
      const auto place = FirstDifference(generated[i], others[i]);
      if (!place) continue;
      EXPECT_LT(*place, std::min(generated[i].size(), others[i].size()));
      const double margin =
          MarginBetween(texts_[i], generated[i], others[i], *place);
      EXPECT_LE(margin, noise)
          << what << ", text " << i << ", token " << *place;
      largest = std::max(largest, margin);
      ++count;
    }
    std::printf("  %s: %d of %d texts differ, at margins of at most %.4f\n",
                what.c_str(), count, static_cast<int>(texts_.size()), largest);
    const std::string key = absl::StrReplaceAll(what, {{" ", "_"}});
    RecordProperty(key + "_texts", count);
    RecordProperty(key + "_largest_margin", absl::StrCat(largest));
    return count;
  }

  LoadedModel model_;
  std::vector<GreedyText> texts_;
};

TEST_P(GreedyCudaTest, TextsPartAtNearTiesOnly) {
  std::vector<Ids> reference;
  for (const GreedyText& text : texts_) reference.push_back(text.ids);
  const double noise = MarginNoise();
  std::printf("  largest error of a margin: %.5f\n", noise);
  RecordProperty("margin_noise", absl::StrCat(noise));
  // Decoding and trees round in other orders than a prompt does: other samples
  // of that noise. Of float32 it is about nothing, and margins are told in four
  // decimals.
  const double allowed = kMostOfNoise * noise;
  EXPECT_LT(noise, is_float() ? 2e-4 : 0.2);

  const std::vector<Ids> plain = Generated(Off(1));
  const std::vector<Ids> together = Generated(Off(8));
  const std::vector<Ids> chains = Generated(Chain(5, 1));
  const std::vector<Ids> trees = Generated(Tree(63, 1));
  const std::vector<Ids> trees_together = Generated(Tree(20, 8));

  int differ = 0;
  differ += CountPartings("plain beside reference", plain, reference, allowed);
  differ += CountPartings("8 together beside reference", together, reference,
                          allowed);
  differ +=
      CountPartings("chains beside reference", chains, reference, allowed);
  differ += CountPartings("trees beside reference", trees, reference, allowed);
  differ += CountPartings("8 trees beside reference", trees_together, reference,
                          allowed);
  differ += CountPartings("chains beside plain", chains, plain, allowed);
  differ += CountPartings("trees beside plain", trees, plain, allowed);
  differ += CountPartings("8 trees beside 8 together", trees_together, together,
                          allowed);
  if (is_float()) {
    EXPECT_EQ(differ, 0);
  }
}

BOLE_FOR_EACH_ELEMENT(GreedyCudaTest);

}  // namespace
}  // namespace bole::testing_support
