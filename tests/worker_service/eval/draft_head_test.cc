// A drafter that chooses among few tokens writes what one writes that chooses
// among all, and is right nearly as often.
#include "worker_service/loading/draft_head.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "tests/worker_service/eval/demo_model.h"
#include "tests/worker_service/eval/drafting_demo.h"
#include "tests/worker_service/model/files.h"
#include "worker_service/eval/count_text.h"
#include "worker_service/eval/generator.h"
#include "worker_service/loading/draft_tokens.h"
#include "worker_service/loading/loaded_model.h"

namespace bole::testing_support {
namespace {

// With a drafter that knows these tokens alone.
struct ListedDemo : DraftingDemo {
  explicit ListedDemo(const std::vector<int32_t>& tokens) {
    const absl::Status restricted =
        RestrictDraftHead(tokens, backend, *model.weights);
    EXPECT_TRUE(restricted.ok()) << restricted;
  }
};

// The tokens that the demo model writes most often after some prompts.
std::vector<int32_t> FrequentTokens(int size) {
  DemoModel& demo = DemoModel::Get();
  std::vector<int64_t> count(demo.model().num_valid_tokens());
  for (const GenerateResult& result :
       demo.Run(Off(8), DemoRequests(0, 16, /*temperature=*/0.8f))) {
    for (const int32_t token : Tokens(result)) ++count[token];
  }
  return ChooseTokens(count, demo.model().stop_tokens, size).tokens;
}

// Half of the tokens, by what is written after other prompts: less than a
// thousand tokens of text, so that many of the list are a guess.
TEST(DraftHeadTest, TextsAreEqualAndFewDraftsAreLost) {
  ListedDemo listed(FrequentTokens(4096));
  for (const float temperature : {0.0f, 0.8f}) {
    SCOPED_TRACE(temperature);
    const std::vector<GenerateRequest> requests =
        DemoRequests(16, 8, temperature);

    const std::vector<GenerateResult> want =
        DemoModel::Get().Run(Tree(32, 8), requests);
    const std::vector<GenerateResult> got = listed.Run(requests);

    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(Tokens(got[i]), Tokens(want[i])) << "prompt " << i;
    }
    EXPECT_GE(MeanAccepted(got), 0.8 * MeanAccepted(want));
  }
}

// A list that has nothing of the language loses drafts, and no text.
TEST(DraftHeadTest, APoorListCostsDraftsAlone) {
  std::vector<int32_t> tokens(kMinDraftTokens);
  for (int i = 0; i < kMinDraftTokens; ++i) tokens[i] = 7000 + 3 * i;
  ListedDemo listed(tokens);
  const std::vector<GenerateRequest> requests =
      DemoRequests(16, 4, /*temperature=*/0);

  const std::vector<GenerateResult> want =
      DemoModel::Get().Run(Tree(32, 8), requests);
  const std::vector<GenerateResult> got = listed.Run(requests);

  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(Tokens(got[i]), Tokens(want[i])) << "prompt " << i;
  }
  EXPECT_LT(MeanAccepted(got), 0.7 * MeanAccepted(want));
}

class SetDraftHeadTest : public testing::Test {
 protected:
  SetDraftHeadTest() {
    absl::StatusOr<LoadedModel> loaded = LoadModel("models/demo", backend_);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    model_ = *std::move(loaded);
  }

  ReferenceBackend backend_{/*num_threads=*/1};
  LoadedModel model_;
};

TEST_F(SetDraftHeadTest, AutoTakesTheListWhereThereIsOne) {
  const ScopedDirectory directory;
  const std::string& folder = directory.path();
  directory.Write("draft_tokens.json",
                  R"({"tokens": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,8187]})");

  EXPECT_TRUE(
      SetDraftHead("models/demo", DraftHead::kAuto, backend_, model_).ok());
  EXPECT_EQ(model_.weights->drafter->head, nullptr);
  EXPECT_TRUE(SetDraftHead(folder, DraftHead::kFull, backend_, model_).ok());
  EXPECT_EQ(model_.weights->drafter->head, nullptr);
  EXPECT_TRUE(SetDraftHead(folder, DraftHead::kAuto, backend_, model_).ok());
  ASSERT_NE(model_.weights->drafter->head, nullptr);
  EXPECT_EQ(model_.weights->drafter->head->rows, 16);
}

TEST_F(SetDraftHeadTest, AListThatIsAskedForMustBeThere) {
  const absl::Status missing =
      SetDraftHead("models/demo", DraftHead::kListed, backend_, model_);
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound) << missing;

  model_.weights->drafter.reset();
  EXPECT_EQ(SetDraftHead("models/demo", DraftHead::kListed, backend_, model_),
            absl::InvalidArgumentError(
                "--draft-head listed: the checkpoint has no drafter (mtp.* "
                "tensors)"));
}

}  // namespace
}  // namespace bole::testing_support
