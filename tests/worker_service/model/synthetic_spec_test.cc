#include "worker_service/model/synthetic_spec.h"

#include <string>

#include "gtest/gtest.h"
#include "worker_service/model/model_config.h"
#include "worker_service/model/published_sizes.h"
#include "worker_service/model/simulated_drafter.h"

namespace bole {
namespace {

TEST(SyntheticSpecTest, ASizeAloneTakesTheDefaults) {
  EXPECT_TRUE(IsSynthetic("synthetic:9B"));
  EXPECT_FALSE(IsSynthetic("models/synthetic:9B"));

  const auto spec = ParseSyntheticSpec("synthetic:9B");

  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->size, "9B");
  EXPECT_EQ(spec->seed, 1u);
  EXPECT_FALSE(spec->noise.has_value());
  EXPECT_FALSE(spec->layers.has_value());
}

TEST(SyntheticSpecTest, ReadsEveryOption) {
  const auto spec = ParseSyntheticSpec(
      "synthetic:tiny,seed=18446744073709551615,accept=5.6,entropy=1.25,"
      "noise=0.5,layers=8,tokens=4096,tree=2x5x16,spread=0.5,outside=0.01");

  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->seed, 18446744073709551615u);
  EXPECT_EQ(spec->accept, 5.6);
  EXPECT_EQ(spec->entropy, 1.25);
  EXPECT_EQ(spec->noise, 0.5);
  EXPECT_EQ(spec->layers, 8);
  EXPECT_EQ(spec->tokens, 4096);
  EXPECT_EQ(spec->tree, (VerifiedTree{{.top_k = 2, .depth = 5}, 16}));
  EXPECT_EQ(spec->spread, 0.5);
  EXPECT_EQ(spec->outside, 0.01);
}

TEST(SyntheticSpecTest, SaysWhatIsWrong) {
  const struct {
    const char* model;
    const char* message;
  } cases[] = {
      {"synthetic:", "no size"},
      {"synthetic:,seed=1", "no size"},
      {"synthetic:9B,seed", "\"seed\" is not of the form"},
      {"synthetic:9B,,seed=1", "\"\" is not of the form"},
      {"synthetic:9B,depth=8", "no option \"depth\""},
      {"synthetic:9B,seed=-1", "seed is \"-1\""},
      {"synthetic:9B,accept=10", "accept is 10, expected at most 9"},
      {"synthetic:9B,accept=5,tree=4x3x64", "depth 3"},
      {"synthetic:9B,tree=4x8", "tree is \"4x8\""},
      {"synthetic:9B,tree=4x17x64", "tree's depth is \"17\""},
      {"synthetic:9B,spread=-1", "spread is \"-1\""},
      {"synthetic:9B,outside=1", "outside is \"1\""},
      {"synthetic:9B,accept=nan", "accept is \"nan\""},
      {"synthetic:9B,accept=6.9x", "accept is \"6.9x\""},
      {"synthetic:9B,entropy=2.5", "entropy is \"2.5\""},
      {"synthetic:9B,layers=0", "layers is \"0\""},
      {"synthetic:9B,tokens=1001", "multiple of 128"},
  };
  for (const auto& c : cases) {
    const auto spec = ParseSyntheticSpec(c.model);

    ASSERT_FALSE(spec.ok()) << c.model;
    EXPECT_NE(std::string(spec.status().message()).find(c.message),
              std::string::npos)
        << spec.status();
  }
}

// Elements of the matrices that a token meets, and of all of them.
struct Parameters {
  double active = 0;
  double all = 0;

  void Add(double elements) {
    active += elements;
    all += elements;
  }
};

Parameters ParametersOf(const ModelConfig& c) {
  const double hidden = c.hidden_size;
  const double values = c.value_dim();
  const double keys = c.key_dim();
  const double queries = c.query_dim();
  const double kv = c.kv_dim();
  Parameters sum;
  sum.Add(c.vocab_size * hidden * (c.tie_word_embeddings ? 1 : 2));
  for (const LayerKind kind : c.layer_kinds) {
    if (kind == LayerKind::kLinearAttention) {
      // q, k, v, z and the way back.
      sum.Add(hidden * (2 * keys + 3 * values));
    } else {
      // q and its gate, k, v and the way back.
      sum.Add(hidden * (3 * queries + 2 * kv));
    }
    if (!c.moe) {
      sum.Add(3 * hidden * c.intermediate_size);
      continue;
    }
    const double expert = 3 * hidden * c.moe->intermediate_size;
    sum.Add(3 * hidden * c.moe->shared_intermediate_size);
    sum.active += c.moe->experts_per_token * expert;
    sum.all += c.moe->num_experts * expert;
  }
  return sum;
}

// A name says how many billions of parameters there are, and after an A how
// many of them a token meets.
TEST(PublishedSizesTest, HaveTheParametersThatTheirNamesSay) {
  for (const char* size :
       {"0.8B", "2B", "4B", "9B", "27B", "35B-A3B", "122B-A10B", "397B-A17B"}) {
    SCOPED_TRACE(size);
    const auto config = ConfigOfSize(size);
    ASSERT_TRUE(config.ok()) << config.status();
    const std::string name = size;
    const size_t active = name.find('A');
    const double billions = std::stod(name);
    const double active_billions = active == std::string::npos
                                       ? billions
                                       : std::stod(name.substr(active + 1));

    const Parameters parameters = ParametersOf(*config);

    EXPECT_NEAR(parameters.all / 1e9, billions, 0.12 * billions);
    EXPECT_NEAR(parameters.active / 1e9, active_billions,
                0.2 * active_billions);
  }
  EXPECT_FALSE(ConfigOfSize("9b").ok());
}

}  // namespace
}  // namespace bole
