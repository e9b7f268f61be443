// Which kernel serves which shape. A fallback computes the same, slower: no
// other test would notice it. Needs no GPU: the choices are functions of the
// shape and of what the GPU is.
#include <cstdint>
#include <optional>
#include <ostream>

#include "gtest/gtest.h"
#include "kernels/attention.h"
#include "kernels/cuda/attention/attention_tiles.h"
#include "kernels/cuda/attention/tile_attention.h"
#include "kernels/cuda/gdn/commit_path.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/prefill/gdn_chunks.h"
#include "kernels/cuda/products/product.h"
#include "kernels/cuda/products/streamed_products.h"
#include "kernels/cuda/products/wide_products.h"
#include "kernels/cuda/verify/choose_verify.h"
#include "kernels/cuda/verify/gdn_verify_few.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// For the traces of failures.
void PrintTo(VerifyWay way, std::ostream* out) {
  constexpr const char* kNames[] = {"two-stage", "alone", "few",   "batched",
                                    "paths",     "long",  "fused", "plain",
                                    "walk",      "serial"};
  *out << kNames[static_cast<int>(way)];
}

namespace {

// An H100 or H200, an A100, and a DGX Spark, as far as choices depend on them.
constexpr Launch kHopper{.type = ElementType::kBFloat16,
                         .stream = nullptr,
                         .overlaps = true,
                         .is_hopper = true,
                         .shared_bytes = 227 << 10};
constexpr Launch kAmpere{.type = ElementType::kBFloat16,
                         .stream = nullptr,
                         .shared_bytes = 163 << 10};
constexpr Launch kSpark{.type = ElementType::kBFloat16,
                        .stream = nullptr,
                        .overlaps = true,
                        .shared_bytes = 99 << 10};

Launch InFloat32(Launch on) {
  on.type = ElementType::kFloat32;
  return on;
}

// Linear layers of the published 9B (32 value heads); others differ in these.
constexpr GdnShape k9B{.key_heads = 16,
                       .value_heads = 32,
                       .key_dim = 128,
                       .value_dim = 128,
                       .conv_taps = 4};

// Trees of up to `nodes` nodes, with paths as short as drafts are deep.
GdnCoreParams Trees(int requests, int nodes, const GdnShape& shape = k9B) {
  GdnCoreParams params{};
  params.shape = shape;
  params.batch.max_requests = requests;
  params.batch.mask_words = (nodes + 31) / 32;
  params.batch.rows.max = requests * nodes;
  params.batch.max_path = 9;
  params.solver = TreeSolver::kBlocks;
  return params;
}

TEST(ChooseVerifyTest, FewHeadsAreSpreadOverTheGpu) {
  for (const int nodes : {2, 16, 32}) {
    EXPECT_EQ(ChooseVerify(Trees(1, nodes), kHopper), VerifyWay::kFew);
    EXPECT_EQ(ChooseVerify(Trees(2, nodes), kHopper), VerifyWay::kFew);
  }
  EXPECT_EQ(ChooseVerify(Trees(1, 48), kHopper), VerifyWay::kAlone);
  EXPECT_EQ(ChooseVerify(Trees(1, 64), kHopper), VerifyWay::kAlone);
  EXPECT_EQ(ChooseVerify(Trees(2, 64), kHopper), VerifyWay::kFew);
}

TEST(ChooseVerifyTest, ManyHeadsGoThroughTheMultiprocessorsInTurn) {
  for (const int requests : {3, 4, 16, 32}) {
    SCOPED_TRACE(requests);
    for (const int nodes : {8, 32, 64}) {
      EXPECT_EQ(ChooseVerify(Trees(requests, nodes), kHopper),
                VerifyWay::kBatched);
    }
    EXPECT_EQ(ChooseVerify(Trees(requests, 128), kHopper), VerifyWay::kPaths);
  }
  // The 27B has 48 heads: two requests are many.
  GdnShape large = k9B;
  large.value_heads = 48;
  EXPECT_EQ(ChooseVerify(Trees(1, 32, large), kHopper), VerifyWay::kFew);
  EXPECT_EQ(ChooseVerify(Trees(2, 32, large), kHopper), VerifyWay::kBatched);
}

TEST(ChooseVerifyTest, LargeTreesAreVerifiedPathByPathIfPathsAreShort) {
  GdnCoreParams params = Trees(8, 128);
  params.batch.max_path = 16;
  EXPECT_EQ(ChooseVerify(params, kHopper), VerifyWay::kPaths);
  params.batch.max_path = 17;
  EXPECT_EQ(ChooseVerify(params, kHopper), VerifyWay::kLong);
  params.batch.max_path = 0;  // Not known.
  EXPECT_EQ(ChooseVerify(params, kHopper), VerifyWay::kLong);
  // Few heads leave one way.
  EXPECT_EQ(ChooseVerify(Trees(1, 128), kHopper), VerifyWay::kFused);
  EXPECT_EQ(ChooseVerify(Trees(2, 128), kHopper), VerifyWay::kFused);
}

// A bucket with few rows holds no large tree, whatever its masks could.
TEST(ChooseVerifyTest, RowsLimitWhatATreeCanHave) {
  GdnCoreParams params = Trees(1, 128);
  params.batch.rows.max = 64;
  EXPECT_EQ(ChooseVerify(params, kHopper), VerifyWay::kAlone);
  params.batch.rows.max = 16;
  EXPECT_EQ(ChooseVerify(params, kHopper), VerifyWay::kFew);
}

TEST(ChooseVerifyTest, OtherGpusRunWhatIsCompiledForThem) {
  for (const Launch& on : {kAmpere, kSpark}) {
    SCOPED_TRACE(on.shared_bytes);
    for (const int requests : {1, 2, 8}) {
      for (const int nodes : {16, 64, 128}) {
        const VerifyWay way = ChooseVerify(Trees(requests, nodes), on);
        EXPECT_TRUE(way == VerifyWay::kFew || way == VerifyWay::kFused ||
                    way == VerifyWay::kPlain)
            << ::testing::PrintToString(way) << " of " << nodes << " nodes";
      }
    }
  }
  EXPECT_EQ(ChooseVerify(Trees(8, 64), kAmpere), VerifyWay::kFused);
}

TEST(ChooseVerifyTest, SolversHaveTheirOwnWays) {
  GdnCoreParams params = Trees(4, 64);
  params.solver = TreeSolver::kNeumann;
  EXPECT_EQ(ChooseVerify(params, kHopper), VerifyWay::kTwoStage);
  EXPECT_GT(GdnVerifyScratchBytes(params, kHopper), 0u);
  EXPECT_EQ(ChooseVerify(params, InFloat32(kHopper)), VerifyWay::kPlain);
  params.solver = TreeSolver::kSerial;
  EXPECT_EQ(ChooseVerify(params, kHopper), VerifyWay::kSerial);
  float state = 0;
  params.factors.node_states = &state;
  EXPECT_EQ(ChooseVerify(params, kHopper), VerifyWay::kWalk);
  EXPECT_EQ(GdnVerifyScratchBytes(params, kHopper), 0u);
}

TEST(ChooseVerifyTest, Float32AndOtherHeadsArePlain) {
  EXPECT_EQ(ChooseVerify(Trees(4, 32), InFloat32(kHopper)), VerifyWay::kPlain);
  GdnShape small = k9B;
  small.key_dim = 32;
  small.value_dim = 32;
  EXPECT_EQ(ChooseVerify(Trees(4, 32, small), kHopper), VerifyWay::kPlain);
}

TEST(ChooseVerifyTest, LayersOfFewHeadsAreOneLaunch) {
  const auto is_one = [](const GdnCoreParams& core, const Launch& on) {
    GdnVerifyLayerParams params{};
    params.conv.shape = core.shape;
    params.core = core;
    return CanVerifyLayer(params, on);
  };
  EXPECT_TRUE(is_one(Trees(1, 32), kHopper));
  EXPECT_TRUE(is_one(Trees(2, 64), kHopper));
  EXPECT_FALSE(is_one(Trees(3, 32), kHopper));
  EXPECT_FALSE(is_one(Trees(1, 128), kHopper));
  EXPECT_FALSE(is_one(Trees(1, 32), kAmpere));
  EXPECT_FALSE(is_one(Trees(1, 32), InFloat32(kHopper)));
}

TEST(ChoosePrefillTest, ChunksAreForHeadsOf128OnHopper) {
  EXPECT_TRUE(PrefillsInChunks(k9B, kHopper));
  EXPECT_FALSE(PrefillsInChunks(k9B, kAmpere));
  EXPECT_FALSE(PrefillsInChunks(k9B, InFloat32(kHopper)));
  GdnShape small = k9B;
  small.key_dim = 64;
  EXPECT_FALSE(PrefillsInChunks(small, kHopper));
}

// On an H200: 132 multiprocessors with a block, or 66 clusters, each.
class ChooseProductTest : public ::testing::Test {
 protected:
  ProductWay Choose(int num_rows, int rows, int columns) const {
    return hopper_.Choose(Of(num_rows, rows, columns), ElementType::kBFloat16);
  }
  static Product Of(int num_rows, int rows, int columns) {
    Product product{};
    product.num_rows = num_rows;
    product.rows = rows;
    product.columns = columns;
    return product;
  }

  const StreamedProducts hopper_{132, WideProducts(132, 66)};
  const StreamedProducts other_{108, std::nullopt};
};

TEST_F(ChooseProductTest, FewRowsAreStreamed) {
  for (const int num_rows : {1, 2, 8, 9, 32}) {
    EXPECT_EQ(Choose(num_rows, 4096, 12288), ProductWay::kStreamed);
    EXPECT_EQ(Choose(num_rows, 24576, 4096), ProductWay::kStreamed);
    EXPECT_EQ(Choose(num_rows, 248320, 4096), ProductWay::kStreamed);
  }
}

TEST_F(ChooseProductTest, SixtyFourRowsOfLargeMatricesAreWide) {
  for (const int num_rows : {33, 64}) {
    EXPECT_EQ(Choose(num_rows, 4096, 12288), ProductWay::kWide);
    EXPECT_EQ(Choose(num_rows, 5120, 17408), ProductWay::kWide);
    // A block would have too little to read of so small a matrix.
    EXPECT_EQ(Choose(num_rows, 1024, 2560), ProductWay::kLibrary);
  }
  EXPECT_EQ(Choose(65, 4096, 12288), ProductWay::kLibrary);
  EXPECT_EQ(Choose(512, 4096, 12288), ProductWay::kLibrary);
}

TEST_F(ChooseProductTest, TheLibraryTakesWhatNoKernelDoes) {
  EXPECT_EQ(Choose(4, 4096, 4100), ProductWay::kLibrary);
  EXPECT_EQ(hopper_.Choose(Of(4, 4096, 4096), ElementType::kFloat32),
            ProductWay::kLibrary);
  EXPECT_EQ(other_.Choose(Of(4, 4096, 4096), ElementType::kBFloat16),
            ProductWay::kLibrary);
}

TEST_F(ChooseProductTest, PairsAreForEightRows) {
  // The 9B model has this product between the mixer and the FFN.
  const auto takes = [&](int num_rows, ElementType type) {
    ProductPair pair{};
    pair.ahead = Of(num_rows, 4096, 4096);
    pair.ahead.accumulate = true;
    pair.behind = Of(num_rows, 24576, 4096);
    pair.behind.gated = true;
    return hopper_.TakePair(pair, type);
  };
  EXPECT_TRUE(takes(1, ElementType::kBFloat16));
  EXPECT_TRUE(takes(8, ElementType::kBFloat16));
  EXPECT_FALSE(takes(9, ElementType::kBFloat16));
  EXPECT_FALSE(takes(1, ElementType::kFloat32));
}

TEST_F(ChooseProductTest, GatesAreForEightRowsAndFrom33On) {
  const auto choose = [&](int num_rows) {
    Product product = Of(num_rows, 24576, 4096);
    product.gated = true;
    return hopper_.Choose(product, ElementType::kBFloat16);
  };
  EXPECT_EQ(choose(1), ProductWay::kStreamed);
  EXPECT_EQ(choose(8), ProductWay::kStreamed);
  EXPECT_EQ(choose(9), ProductWay::kLibrary);
  EXPECT_EQ(choose(32), ProductWay::kLibrary);
  EXPECT_EQ(choose(64), ProductWay::kWide);
}

// The 9B model has 16 heads of 256 dimensions on 4 of keys and values.
AttentionParams Attention(int requests, int rows, int max_pages) {
  AttentionParams params{};
  params.shape = {
      .query_heads = 16, .kv_heads = 4, .head_dim = 256, .rotary_dim = 64};
  params.pages.num_layers = 9;
  params.pages.num_pages = 1000;
  params.pages.page_size = 64;
  params.batch.max_requests = requests;
  params.batch.rows.max = rows;
  params.batch.max_pages = max_pages;
  params.batch.mask_words = 1;
  return params;
}

TEST(ChooseAttentionTest, TilesAreForHeadsOf256AndPagesOfWholeTilesOnHopper) {
  const AttentionParams params = Attention(4, 128, 64);
  EXPECT_TRUE(TileAttention::Covers(params, kHopper));
  EXPECT_FALSE(TileAttention::Covers(params, kAmpere));
  EXPECT_FALSE(TileAttention::Covers(params, InFloat32(kHopper)));
  AttentionParams other = params;
  other.shape.head_dim = 128;
  EXPECT_FALSE(TileAttention::Covers(other, kHopper));
  other = params;
  other.pages.page_size = 48;
  EXPECT_FALSE(TileAttention::Covers(other, kHopper));
}

TEST(ChooseAttentionTest, OneRequestIsDecodedInOneLaunch) {
  const auto is_one = [](int requests, const Launch& on) {
    const AttentionParams attend = Attention(requests, requests, 64);
    AttentionDecodeParams params{};
    params.attend = attend;
    params.qkv.shape = attend.shape;
    params.qkv.batch = attend.batch;
    return TileAttention::CoversDecode(params, on);
  };
  EXPECT_TRUE(is_one(1, kHopper));
  EXPECT_FALSE(is_one(2, kHopper));
  EXPECT_FALSE(is_one(1, kAmpere));
  EXPECT_FALSE(is_one(1, InFloat32(kHopper)));
}

// The prefix of one request is long enough for the whole GPU; many requests
// keep it busy without sharing one.
TEST(ChooseAttentionTest, LongPrefixesOfFewRequestsAreDivided) {
  ClusterLimits limits = {};
  for (int cluster = 1; cluster <= kMaxCluster; ++cluster) {
    limits[cluster] = 132 / cluster;
  }
  const AttentionParams alone = Attention(1, 32, 512);
  const TilePlan divided = PlanTiles(alone, limits);
  EXPECT_GT(divided.cluster * divided.groups, 8);
  const AttentionParams many = Attention(32, 1024, 512);
  const TilePlan whole = PlanTiles(many, limits);
  EXPECT_EQ(whole.groups, 1);
  EXPECT_EQ(TileScratchFloats(many, whole), 0u);
}

TEST(ChooseCommitTest, PathsAreCommittedInOneLaunch) {
  GdnCommitParams linear{};
  linear.shape = k9B;
  linear.num_layers = 24;
  CompactKvParams attention{};
  attention.shape = Attention(1, 1, 1).shape;
  EXPECT_TRUE(CanCommitPath(linear, attention, kHopper));
  EXPECT_TRUE(CanCommitPath(linear, attention, kAmpere));
  float state = 0;
  linear.factors.node_states = &state;  // Copied, not replayed.
  EXPECT_FALSE(CanCommitPath(linear, attention, kHopper));
}

}  // namespace
}  // namespace bole::cuda
