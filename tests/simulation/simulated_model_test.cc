#include "tests/simulation/simulated_model.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/simulation/simulated_text.h"

namespace bole::simulation {
namespace {

TEST(WordAlphabetTest, HasSpacesAndLettersAlone) {
  // The tiny tokenizer has only " a".
  EXPECT_EQ(WordAlphabet(*testing::MakeTinyTokenizer()),
            std::vector<int32_t>{259});
}

TEST(LoadSimulatedModelTest, TextsOfTheDemoModelAreEncodedToThemselves) {
  const auto model = LoadSimulatedModel("models/demo");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->vocabulary, 8192);
  std::vector<int32_t> stops = model->stop_tokens;
  std::sort(stops.begin(), stops.end());
  EXPECT_EQ(stops, (std::vector<int32_t>{8187, 8189}));
  EXPECT_GT(model->alphabet.size(), 1000u);

  const auto tokenizer = Tokenizer::Load("models/demo/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok());
  TextOptions text;
  text.alphabet = model->alphabet;
  const std::vector<int32_t> prompt = {1};
  const std::vector<int32_t> output = ExpectedOutput(text, prompt, {}, 500);
  const auto ids = (*tokenizer)->Encode((*tokenizer)->Decode(output));
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(*ids, output);
}

TEST(LoadSimulatedModelTest, AFolderWithoutATokenizerIsAnError) {
  EXPECT_NE(
      LoadSimulatedModel("tests").status().message().find("tokenizer.json"),
      absl::string_view::npos);
}

}  // namespace
}  // namespace bole::simulation
