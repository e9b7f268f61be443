#include "common/tokenizer/byte_map.h"

#include <array>

#include "common/tokenizer/utf8.h"

namespace bole {
namespace {

constexpr uint32_t kFirstSubstitute = 0x100;
constexpr int kNumSubstitutes = 68;

constexpr bool StandsForItself(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) ||
         byte >= 174;
}

struct ByteMap {
  std::array<uint16_t, 256> printable{};
  std::array<uint8_t, kNumSubstitutes> byte_of_substitute{};
};

constexpr ByteMap MakeByteMap() {
  ByteMap map;
  int num_substitutes = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (StandsForItself(byte)) {
      map.printable[byte] = static_cast<uint16_t>(byte);
      continue;
    }
    map.byte_of_substitute[num_substitutes] = static_cast<uint8_t>(byte);
    map.printable[byte] =
        static_cast<uint16_t>(kFirstSubstitute + num_substitutes++);
  }
  return map;
}

constexpr ByteMap kByteMap = MakeByteMap();

}  // namespace

uint32_t PrintableOfByte(uint8_t byte) { return kByteMap.printable[byte]; }

std::string PrintableOfBytes(std::string_view bytes) {
  std::string printable;
  for (const char byte : bytes) {
    AppendCodePoint(PrintableOfByte(static_cast<uint8_t>(byte)), &printable);
  }
  return printable;
}

std::optional<std::string> BytesOfPrintable(std::string_view printable) {
  std::string bytes;
  bytes.reserve(printable.size());
  while (!printable.empty()) {
    const int size = ScanUtf8(printable).size;
    const uint32_t code_point = DecodeCodePoint(printable, size);
    if (code_point < kFirstSubstitute) {
      if (!StandsForItself(static_cast<int>(code_point))) return std::nullopt;
      bytes.push_back(static_cast<char>(code_point));
    } else {
      const uint32_t index = code_point - kFirstSubstitute;
      if (index >= kNumSubstitutes) return std::nullopt;
      bytes.push_back(static_cast<char>(kByteMap.byte_of_substitute[index]));
    }
    printable.remove_prefix(size);
  }
  return bytes;
}

}  // namespace bole
