// The bound on bfloat16's distance from the reference outputs: mistakes exceed
// it.
#include "tests/worker_service/eval/rounded_goldens.h"

#include <cstdio>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace bole::testing_support {
namespace {

enum class Mistake {
  kNone,
  kLargerEpsilon,
  kNoAttentionGate,
  kNoOutputGate,
  kNoTimeStepBias,
  kShortConvolution,
  kRotation,
  kTreeIsAChain,
};

constexpr const char* kNames[] = {
    "none",           "a norm's epsilon",    "no gate on attention",
    "no output gate", "no bias of a decay",  "a convolution of three taps",
    "a rotation",     "no mask of ancestors"};

// Makes the mistake in one layer of its kind, the last of a demo model.
class MistakenBackend : public RoundedBackend {
 public:
  explicit MistakenBackend(Mistake mistake)
      : RoundedBackend(/*num_threads=*/2), mistake_(mistake) {}

  absl::Status RmsNorm(const RmsNormParams& params) override {
    RmsNormParams p = params;
    if (mistake_ == Mistake::kLargerEpsilon) p.epsilon *= 100;
    return RoundedBackend::RmsNorm(p);
  }
  absl::Status GdnConv(const GdnConvParams& params) override {
    GdnConvParams p = params;
    if (params.layer != kLinearLayer) return RoundedBackend::GdnConv(p);
    if (mistake_ == Mistake::kNoTimeStepBias) {
      p.dt_bias = Constant(p.shape.value_heads, 0);
    }
    if (mistake_ == Mistake::kShortConvolution) {
      const int size = p.shape.conv_width() * p.shape.conv_taps;
      values_.assign(p.conv_weight, p.conv_weight + size);
      for (int i = 0; i < size; i += p.shape.conv_taps) values_[i] = 0;
      p.conv_weight = values_.data();
    }
    return RoundedBackend::GdnConv(p);
  }
  absl::Status GdnGatedNorm(const GdnGatedNormParams& params) override {
    // The norm comes after the layer's core, which was told the layer.
    if (mistake_ == Mistake::kNoOutputGate && layer_ == kLinearLayer) {
      SetColumns(params.projected, *params.rows.count,
                 params.shape.projected_width(), params.shape.z_column(),
                 params.shape.value_width(), kSiluIsOne);
    }
    return RoundedBackend::GdnGatedNorm(params);
  }
  absl::Status GdnPrefill(const GdnCoreParams& params) override {
    layer_ = params.layer;
    return RoundedBackend::GdnPrefill(params);
  }
  absl::Status GdnVerify(const GdnCoreParams& params) override {
    layer_ = params.layer;
    return RoundedBackend::GdnVerify(params);
  }
  absl::Status PrepareQkv(const QkvParams& params) override {
    QkvParams p = params;
    if (mistake_ == Mistake::kRotation && params.layer == kAttentionLayer) {
      const int size = p.shape.rotary_dim / 2;
      values_.assign(p.inverse_frequency, p.inverse_frequency + size);
      for (float& x : values_) x *= 1.1f;
      p.inverse_frequency = values_.data();
    }
    return RoundedBackend::PrepareQkv(p);
  }
  absl::Status Attend(const AttentionParams& params) override {
    AttentionParams p = params;
    if (params.layer != kAttentionLayer) return RoundedBackend::Attend(p);
    if (mistake_ == Mistake::kNoAttentionGate) {
      for (int head = 0; head < p.shape.query_heads; ++head) {
        SetColumns(p.projected, *p.batch.rows.count, p.shape.projected_width(),
                   (2 * head + 1) * p.shape.head_dim, p.shape.head_dim,
                   kSigmoidIsOne);
      }
    }
    if (mistake_ == Mistake::kTreeIsAChain) p.batch.mask_words = 0;
    return RoundedBackend::Attend(p);
  }

 private:
  static constexpr int kLinearLayer = 5;
  static constexpr int kAttentionLayer = 1;
  static constexpr float kSigmoidIsOne = 40;
  static constexpr float kSiluIsOne = 1.27846f;

  const float* Constant(int size, float value) {
    values_.assign(size, value);
    return values_.data();
  }
  // Nobody else reads those columns of the projection.
  static void SetColumns(const Activation* rows, int count, int width,
                         int first, int columns, float value) {
    auto* x = reinterpret_cast<float*>(const_cast<Activation*>(rows));
    for (int i = 0; i < count; ++i) {
      std::fill_n(x + static_cast<int64_t>(i) * width + first, columns, value);
    }
  }

  Mistake mistake_;
  int layer_ = 0;
  std::vector<float> values_;
};

TEST(RoundedGoldensTest, MistakesExceedTheBound) {
  const GoldenCheckpoint& demo = kGoldenCheckpoints[0];
  const auto run = [&](Mistake mistake) {
    MistakenBackend backend(mistake);
    return RunGolden(demo, backend, /*chunk=*/0, TreeSolver::kBlocks);
  };
  const auto noise = NoiseOf(demo);
  for (const auto& [name, error] : noise) {
    std::printf("  %s: rms %.2e, median row %.2e\n", name.c_str(), error.rms,
                error.median_row);
    // The errors have the size of bfloat16: some roundings of 2^-9, and not an
    // accident.
    EXPECT_GT(error.rms, 0.0005) << name;
    EXPECT_LT(error.rms, 0.05) << name;
  }

  for (int i = 1; i < static_cast<int>(std::size(kNames)); ++i) {
    std::string worst;
    const double share =
        ShareOfBound(run(static_cast<Mistake>(i)), noise, &worst);

    std::printf("  %s: %.1f of the bound of %s\n", kNames[i], share,
                worst.c_str());
    EXPECT_GT(share, 1) << kNames[i];
  }
}

// Other samples stay within it: other seeds, and chunks.
TEST(RoundedGoldensTest, OtherSamplesDoNot) {
  for (const GoldenCheckpoint& checkpoint : kGoldenCheckpoints) {
    const auto noise = NoiseOf(checkpoint);
    for (int seed = 10; seed < 16; ++seed) {
      RoundedBackend backend(/*num_threads=*/2, seed);
      const auto errors =
          RunGolden(checkpoint, backend, /*chunk=*/37, TreeSolver::kSerial);
      std::string worst;

      const double share = ShareOfBound(errors, noise, &worst);

      std::printf("  %s, seed %d: %.2f of the bound of %s\n", checkpoint.name,
                  seed, share, worst.c_str());
      EXPECT_LE(share, 1) << checkpoint.name << ", " << worst;
    }
  }
}

}  // namespace
}  // namespace bole::testing_support
