#include "common/tokenizer/byte_map.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(ByteMapTest, NamesTheBytesAsVocabulariesDo) {
  EXPECT_EQ(PrintableOfBytes(" a\n"), "\u0120a\u010A");
  EXPECT_EQ(PrintableOfBytes("\xC3\xA9"), "\u00C3\u00A9");
  EXPECT_EQ(PrintableOfByte(0), 0x100u);
  EXPECT_EQ(PrintableOfByte(0xAD), 0x143u);  // The last of the 68.
  EXPECT_EQ(PrintableOfByte(0xFF), 0xFFu);
}

TEST(ByteMapTest, EveryByteHasItsOwnCharacterAndComesBack) {
  std::set<std::string> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte));
    const std::string printable = PrintableOfBytes(bytes);
    EXPECT_TRUE(seen.insert(printable).second) << byte;
    EXPECT_EQ(BytesOfPrintable(printable), bytes) << byte;
  }
}

TEST(ByteMapTest, OtherCharactersStandForNothing) {
  for (const char* text : {" ", "a b", "\u00AD", "\u0144", "\u4E2D", "\n"}) {
    EXPECT_EQ(BytesOfPrintable(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace bole
