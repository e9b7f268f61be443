// Operations on strings as Python has them: in code points, not bytes. Every
// string is valid UTF-8.
#ifndef BOLE_COMMON_CHAT_PYTHON_TEXT_H_
#define BOLE_COMMON_CHAT_PYTHON_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bole::jinja {

// What str.isspace() says of one character.
bool IsPythonSpace(uint32_t code_point);

// What str.isprintable() says of one character, so whether repr() shows it.
bool IsPythonPrintable(uint32_t code_point);

struct StripSides {
  bool left = true;
  bool right = true;
};

// `text` without the white space at its ends, or without the characters that
// are in `chars`.
std::string_view Strip(std::string_view text,
                       std::optional<std::string_view> chars = std::nullopt,
                       StripSides sides = {});

// str.split(separator, max_splits): the parts between separators, with at most
// `max_splits` cuts (no limit if negative). Without a separator it cuts at runs
// of white space and returns no empty parts.
//
// REQUIRES: `separator` is not empty.
std::vector<std::string_view> Split(std::string_view text,
                                    std::optional<std::string_view> separator,
                                    int64_t max_splits);

// Where `wanted` begins in text[from..), or npos. Linear time for any strings,
// which std::string_view::find does not promise.
size_t Find(std::string_view text, std::string_view wanted, size_t from = 0);

// The characters of `text`, each as a part of it.
std::vector<std::string_view> Characters(std::string_view text);

// The number of characters of `text`.
size_t NumCharacters(std::string_view text);

// Where character number `index` of `text` begins; the size of `text` if it has
// fewer characters.
size_t OffsetOfCharacter(std::string_view text, int64_t index);

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_PYTHON_TEXT_H_
