#include "common/tokenizer/streaming_decoder.h"

#include <random>
#include <string>
#include <vector>

#include "common/tokenizer/utf8.h"
#include "gtest/gtest.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"

namespace bole {
namespace {

using testing::MakeTinyTokenizer;

TEST(StreamingDecoderTest, HoldsBytesUntilTheirCharacterIsComplete) {
  const auto tokenizer = MakeTinyTokenizer();
  StreamingDecoder decoder(*tokenizer);

  EXPECT_EQ(decoder.Push(0xF0), "");
  EXPECT_EQ(decoder.Push(0x9F), "");
  EXPECT_EQ(decoder.Push(0x99), "");
  EXPECT_EQ(decoder.Push(0x82), "\U0001F642");
  EXPECT_EQ(decoder.Push(258), "abc");
  EXPECT_EQ(decoder.Finish(), "");
}

TEST(StreamingDecoderTest, BytesThatCannotBecomeACharacterAreReplacedAtOnce) {
  const auto tokenizer = MakeTinyTokenizer();
  StreamingDecoder decoder(*tokenizer);

  EXPECT_EQ(decoder.Push(0xE2), "");
  EXPECT_EQ(decoder.Push('a'), "\uFFFDa");
  EXPECT_EQ(decoder.Push(0xFF), "\uFFFD");
}

TEST(StreamingDecoderTest, AnEndInsideOfACharacterIsReplaced) {
  const auto tokenizer = MakeTinyTokenizer();
  StreamingDecoder decoder(*tokenizer);

  EXPECT_EQ(decoder.Push(0xE2), "");
  EXPECT_EQ(decoder.Push(0x82), "");
  EXPECT_EQ(decoder.Finish(), "\uFFFD");
  EXPECT_EQ(decoder.Finish(), "");
}

TEST(StreamingDecoderTest, ACopyGoesOnByItself) {
  const auto tokenizer = MakeTinyTokenizer();
  StreamingDecoder decoder(*tokenizer);
  EXPECT_EQ(decoder.Push(0xC3), "");

  StreamingDecoder copy = decoder;

  EXPECT_EQ(copy.Push(0xA8), "\u00E8");
  EXPECT_EQ(decoder.Push(0xA9), "\u00E9");
}

TEST(StreamingDecoderTest, EqualsTheDecodeOfTheWhole) {
  const auto tokenizer = MakeTinyTokenizer();
  std::mt19937 random(3);
  // Few lead and many tail bytes, so that characters are often whole.
  const std::vector<int32_t> likely = {'a',  0xC3, 0xE2, 0xF0, 0xED, 0x82, 0x9F,
                                       0xA9, 0x80, 300,  301,  258,  280,  -3};
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    const bool skip_special = random() % 2 == 0;
    std::vector<int32_t> ids(random() % 20);
    for (int32_t& id : ids) {
      id = random() % 4 == 0 ? static_cast<int32_t>(random() % 320)
                             : likely[random() % likely.size()];
    }

    StreamingDecoder decoder(*tokenizer, skip_special);
    std::string streamed;
    for (const int32_t id : ids) {
      const std::string part = decoder.Push(id);
      EXPECT_TRUE(IsValidUtf8(part));
      streamed += part;
    }
    streamed += decoder.Finish();

    EXPECT_EQ(streamed, tokenizer->Decode(ids, skip_special));
  }
}

}  // namespace
}  // namespace bole
