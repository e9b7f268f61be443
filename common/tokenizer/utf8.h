// UTF-8 that may be broken: validation, and replacement of what is not valid.
#ifndef BOLE_COMMON_TOKENIZER_UTF8_H_
#define BOLE_COMMON_TOKENIZER_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bole {

// U+FFFD in UTF-8.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// A look at the first character of some bytes.
struct Utf8Scan {
  enum class Kind {
    kValid,       // `size` bytes encode one code point.
    kInvalid,     // `size` bytes can start no character, whatever follows them.
    kIncomplete,  // All `size` bytes start a character; more are needed.
  };
  Kind kind;
  int size;
};

// The first character of `bytes`. Invalid bytes are counted as Unicode
// recommends for replacement: the longest start of a character is one unit.
//
// REQUIRES: `bytes` is not empty.
Utf8Scan ScanUtf8(std::string_view bytes);

// Appends the complete characters of `bytes` to `out`, each invalid unit as one
// U+FFFD, and returns how many bytes that took. The rest, at most three bytes,
// is the start of a character that may still be completed.
size_t AppendCompleteUtf8(std::string_view bytes, std::string* out);

// `bytes` with each invalid unit, an incomplete end included, as one U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view bytes);

// True if every byte of `bytes` belongs to a character.
bool IsValidUtf8(std::string_view bytes);

// True if no byte of `bytes` is above 0x7F.
bool IsAscii(std::string_view bytes);

// Appends `code_point` in UTF-8.
//
// REQUIRES: `code_point` is a Unicode scalar value.
void AppendCodePoint(uint32_t code_point, std::string* out);

// The code point of the `size` bytes at the start of `bytes`, as ScanUtf8 found
// them valid.
uint32_t DecodeCodePoint(std::string_view bytes, int size);

}  // namespace bole

#endif  // BOLE_COMMON_TOKENIZER_UTF8_H_
