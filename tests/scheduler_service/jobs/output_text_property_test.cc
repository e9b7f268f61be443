// OutputText against its definition: decode, then look for the stop strings.
#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/tokenizer/streaming_decoder.h"
#include "common/tokenizer/tokenizer.h"
#include "gtest/gtest.h"
#include "scheduler_service/jobs/output_text.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"

namespace bole {
namespace {

struct Outcome {
  std::string text;
  std::optional<std::string> matched;
  size_t tokens = 0;  // Until it ended.

  friend bool operator==(const Outcome&, const Outcome&) = default;
  friend void PrintTo(const Outcome& outcome, std::ostream* out) {
    *out << ::testing::PrintToString(outcome.text) << " after "
         << outcome.tokens << " tokens, by "
         << (outcome.matched ? ::testing::PrintToString(*outcome.matched)
                             : "no stop string");
  }
};

// The stop string in `text` that ends first behind byte `after`, and of those
// the longest.
std::optional<std::pair<size_t, std::string>> FirstToEnd(
    std::string_view text, size_t after,
    const std::vector<std::string>& stops) {
  std::optional<std::pair<size_t, std::string>> first;
  for (const std::string& stop : stops) {
    const size_t begin =
        text.find(stop, after - std::min(after, stop.size() - 1));
    if (begin == std::string_view::npos) continue;
    const size_t end = begin + stop.size();
    if (!first || end < first->first ||
        (end == first->first && stop.size() > first->second.size())) {
      first = {end, stop};
    }
  }
  return first;
}

// The definition. The text of the first tokens that hold a stop string which
// the last of them completes, and that are min_tokens at least; the U+FFFD of a
// character that never ends is not searched.
Outcome Define(const Tokenizer& tokenizer, const TextParams& params,
               int min_tokens, const std::vector<int32_t>& tokens) {
  StreamingDecoder decoder(tokenizer, params.skip_special_tokens);
  std::string text;
  for (size_t n = 0; n < tokens.size(); ++n) {
    const size_t before = text.size();
    text += decoder.Push(tokens[n]);
    const auto found = FirstToEnd(text, before, params.stop);
    if (!found || std::cmp_less(n + 1, min_tokens)) continue;
    const auto& [end, stop] = *found;
    return {
        text.substr(0, end - (params.include_stop_in_output ? 0 : stop.size())),
        stop, n + 1};
  }
  return {tokenizer.Decode(tokens, params.skip_special_tokens), std::nullopt,
          tokens.size()};
}

Outcome Stream(const Tokenizer& tokenizer, const TextParams& params,
               int min_tokens, const std::vector<int32_t>& tokens) {
  OutputText output(tokenizer, params, min_tokens);
  Outcome outcome;
  while (outcome.tokens < tokens.size() && !output.matched_stop()) {
    outcome.text += output.Push(tokens[outcome.tokens++]);
  }
  outcome.text += output.Finish();
  outcome.matched = output.matched_stop();
  return outcome;
}

TextParams RandomParams(std::mt19937& random,
                        const std::vector<std::string>& stops) {
  return {.stop = stops,
          .include_stop_in_output = random() % 2 == 0,
          .skip_special_tokens = random() % 2 == 0};
}

// Few distinct characters, so that stop strings overlap in every way.
std::string RandomStop(std::mt19937& random) {
  constexpr std::string_view kCharacters[] = {"a", "b", "c", "\u00E9",
                                              "\U0001F642"};
  std::string stop;
  const int length = 1 + static_cast<int>(random() % 8);
  for (int i = 0; i < length; ++i) {
    stop += kCharacters[random() % (random() % 8 == 0 ? 5 : 2)];
  }
  return stop;
}

TEST(OutputTextPropertyTest, EqualsItsDefinitionOnTextOfFewCharacters) {
  const auto tokenizer = testing::MakeTinyTokenizer();
  // "a" and "b" often; characters in pieces, whole and broken; special tokens.
  const std::vector<int32_t> alphabet = {
      'a', 'a', 'a', 'b',  'b',  'c',  256,  257,  258,  0xC3,
      300, 301, 302, 0xA9, 0xF0, 0x9F, 0x99, 0x82, 0xFF, 9999};
  int matches = 0;
  for (int round = 0; round < 5000; ++round) {
    SCOPED_TRACE(round);
    std::mt19937 random(round);
    std::vector<std::string> stops(1 + random() % 3);
    for (std::string& stop : stops) stop = RandomStop(random);
    const TextParams params = RandomParams(random, stops);
    // In every other round only the first five, "a" and "b".
    const size_t letters = round % 2 == 0 ? 5 : alphabet.size();
    std::vector<int32_t> tokens(random() % 100);
    for (int32_t& token : tokens) token = alphabet[random() % letters];

    const int min_tokens = random() % 4 == 0 ? 1 + random() % 40 : 0;

    const Outcome got = Stream(*tokenizer, params, min_tokens, tokens);

    ASSERT_EQ(got, Define(*tokenizer, params, min_tokens, tokens));
    matches += got.matched.has_value();
  }
  EXPECT_GT(matches, 1000);
  EXPECT_LT(matches, 4500);
}

TEST(OutputTextPropertyTest, EqualsItsDefinitionOnTokensOfTheDemoModel) {
  const auto loaded = Tokenizer::Load("models/demo/tokenizer.json");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Tokenizer& tokenizer = **loaded;
  int matches = 0;
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    std::mt19937 random(round);
    std::vector<int32_t> tokens(1 + random() % 200);
    for (int32_t& token : tokens) token = random() % tokenizer.num_ids();
    // Text that does occur, and what begins as such text.
    const std::string whole = tokenizer.Decode(tokens);
    std::vector<std::string> stops;
    for (size_t i = 0, n = 1 + random() % 3; i < n; ++i) {
      std::string stop =
          whole.substr(random() % whole.size(), 1 + random() % 12);
      if (random() % 3 == 0) stop += "~";
      stops.push_back(stop);
    }
    const TextParams params = RandomParams(random, stops);

    const Outcome got = Stream(tokenizer, params, /*min_tokens=*/0, tokens);

    ASSERT_EQ(got, Define(tokenizer, params, /*min_tokens=*/0, tokens));
    matches += got.matched.has_value();
  }
  EXPECT_GT(matches, 250);
}

}  // namespace
}  // namespace bole
