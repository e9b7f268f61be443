#include "common/chat/python_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "common/tokenizer/utf8.h"

namespace bole::jinja {
namespace {

bool IsTailByte(char byte) {
  return (static_cast<uint8_t>(byte) & 0xC0) == 0x80;
}

// The last character of `text`.
//
// REQUIRES: `text` is not empty.
std::string_view LastCharacter(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && IsTailByte(text[begin])) --begin;
  return text.substr(begin);
}

std::string_view FirstCharacter(std::string_view text) {
  return text.substr(0, ScanUtf8(text).size);
}

bool IsSpace(std::string_view character) {
  return IsPythonSpace(
      DecodeCodePoint(character, static_cast<int>(character.size())));
}

std::vector<std::string_view> SplitAtSpace(std::string_view text,
                                           int64_t max_splits) {
  constexpr StripSides kLeft = {.left = true, .right = false};
  std::vector<std::string_view> parts;
  text = Strip(text, std::nullopt, kLeft);
  while (!text.empty()) {
    if (max_splits >= 0 && static_cast<int64_t>(parts.size()) == max_splits) {
      parts.push_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const std::string_view character = FirstCharacter(text.substr(end));
      if (IsSpace(character)) break;
      end += character.size();
    }
    parts.push_back(text.substr(0, end));
    text = Strip(text.substr(end), std::nullopt, kLeft);
  }
  return parts;
}

}  // namespace

bool IsPythonSpace(uint32_t code_point) {
  if (code_point < 0x80) {
    return code_point == ' ' || (code_point >= 0x09 && code_point <= 0x0D) ||
           (code_point >= 0x1C && code_point <= 0x1F);
  }
  switch (code_point) {
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000:
      return true;
    default:
      return code_point >= 0x2000 && code_point <= 0x200A;
  }
}

bool IsPythonPrintable(uint32_t code_point) {
  if (code_point == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

std::string_view Strip(std::string_view text,
                       std::optional<std::string_view> chars,
                       StripSides sides) {
  const auto goes = [&](std::string_view character) {
    return chars ? chars->find(character) != chars->npos : IsSpace(character);
  };
  while (sides.left && !text.empty()) {
    const std::string_view first = FirstCharacter(text);
    if (!goes(first)) break;
    text.remove_prefix(first.size());
  }
  while (sides.right && !text.empty()) {
    const std::string_view last = LastCharacter(text);
    if (!goes(last)) break;
    text.remove_suffix(last.size());
  }
  return text;
}

std::vector<std::string_view> Split(std::string_view text,
                                    std::optional<std::string_view> separator,
                                    int64_t max_splits) {
  if (!separator) return SplitAtSpace(text, max_splits);
  std::vector<std::string_view> parts;
  size_t begin = 0;
  while (max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits) {
    const size_t end = Find(text, *separator, begin);
    if (end == text.npos) break;
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator->size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

size_t Find(std::string_view text, std::string_view wanted, size_t from) {
  const std::string_view rest = text.substr(from);
  const void* found =
      memmem(rest.data(), rest.size(), wanted.data(), wanted.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> characters;
  while (!text.empty()) {
    characters.push_back(FirstCharacter(text));
    text.remove_prefix(characters.back().size());
  }
  return characters;
}

size_t NumCharacters(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return !IsTailByte(byte); }));
}

size_t OffsetOfCharacter(std::string_view text, int64_t index) {
  size_t offset = 0;
  while (offset < text.size() && index > 0) {
    ++offset;
    while (offset < text.size() && IsTailByte(text[offset])) ++offset;
    --index;
  }
  return offset;
}

}  // namespace bole::jinja
