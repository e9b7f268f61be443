// The printable alphabet in which byte-level vocabularies are written.
#ifndef BOLE_COMMON_TOKENIZER_BYTE_MAP_H_
#define BOLE_COMMON_TOKENIZER_BYTE_MAP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bole {

// The code point that stands for `byte`: 33..126, 161..172 and 174..255 stand
// for themselves, the other 68 bytes, ascending, are U+0100, U+0101, ...
// (space is U+0120, newline U+010A).
uint32_t PrintableOfByte(uint8_t byte);

// `bytes` in that alphabet, as UTF-8.
std::string PrintableOfBytes(std::string_view bytes);

// The bytes that `printable`, valid UTF-8, stands for, or none if it holds a
// character outside the alphabet.
std::optional<std::string> BytesOfPrintable(std::string_view printable);

}  // namespace bole

#endif  // BOLE_COMMON_TOKENIZER_BYTE_MAP_H_
