#include "common/tokenizer/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/check.h"
#include "common/tokenizer/utf8.h"

namespace bole {
namespace {

using CodePoints = std::vector<utf8proc_int32_t>;

// The longest canonical decomposition of one code point is four long.
constexpr int kMaxDecomposition = 8;

// U+11A7 composes with nothing, but utf8proc takes it for a Hangul trailing
// consonant and drops it. So text is composed in stretches that it begins.
constexpr utf8proc_int32_t kBeforeFirstTrailingConsonant = 0x11A7;

utf8proc_propval_t CombiningClass(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

CodePoints Decompose(std::string_view text) {
  CodePoints code_points;
  code_points.reserve(text.size());
  while (!text.empty()) {
    const int size = ScanUtf8(text).size;
    const auto code_point =
        static_cast<utf8proc_int32_t>(DecodeCodePoint(text, size));
    utf8proc_int32_t parts[kMaxDecomposition];
    int boundary = 0;
    const utf8proc_ssize_t num_parts = utf8proc_decompose_char(
        code_point, parts, kMaxDecomposition,
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE),
        &boundary);
    BOLE_CHECK(num_parts >= 0 && num_parts <= kMaxDecomposition);
    code_points.insert(code_points.end(), parts, parts + num_parts);
    text.remove_prefix(size);
  }
  return code_points;
}

// Canonical order: each run of combining marks by class, stable. utf8proc's own
// ordering is quadratic in the length of a run, which a client chooses.
void SortCombiningMarks(CodePoints& code_points) {
  const auto is_mark = [](utf8proc_int32_t c) { return CombiningClass(c) > 0; };
  auto begin = code_points.begin();
  while (begin != code_points.end()) {
    begin = std::find_if(begin, code_points.end(), is_mark);
    const auto end = std::find_if_not(begin, code_points.end(), is_mark);
    std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
    begin = end;
  }
}

// Composes [begin, end) in place, and appends the result.
void AppendComposed(CodePoints::iterator begin, CodePoints::iterator end,
                    std::string* out) {
  const utf8proc_ssize_t size = utf8proc_normalize_utf32(
      &*begin, static_cast<utf8proc_ssize_t>(end - begin),
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  BOLE_CHECK(size >= 0);
  for (utf8proc_ssize_t i = 0; i < size; ++i) {
    AppendCodePoint(static_cast<uint32_t>(begin[i]), out);
  }
}

}  // namespace

std::string NormalizeNfc(std::string_view text) {
  if (IsAscii(text)) return std::string(text);
  CodePoints code_points = Decompose(text);
  SortCombiningMarks(code_points);
  std::string normalized;
  normalized.reserve(text.size());
  auto begin = code_points.begin();
  while (begin != code_points.end()) {
    const auto end =
        std::find(begin + 1, code_points.end(), kBeforeFirstTrailingConsonant);
    AppendComposed(begin, end, &normalized);
    begin = end;
  }
  return normalized;
}

}  // namespace bole
