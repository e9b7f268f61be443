#include "common/flight/signal_safe_text.h"

#include <algorithm>
#include <array>

namespace bole {

void SignalSafeText::Append(std::string_view text) {
  const size_t length = std::min(text.size(), room_.size() - size_);
  std::copy_n(text.data(), length, room_.data() + size_);
  size_ += length;
}

void SignalSafeText::AppendDecimal(int64_t value, int decimals) {
  // From the last digit to the first. The negative of the least number is none
  // of int64_t, but of uint64_t.
  std::array<char, 24> digits;
  size_t first = digits.size();
  auto left = static_cast<uint64_t>(value);
  if (value < 0) left = 0 - left;
  for (int place = 0; left > 0 || place <= decimals; ++place) {
    if (place == decimals && decimals > 0) digits[--first] = '.';
    digits[--first] = static_cast<char>('0' + left % 10);
    left /= 10;
  }
  if (value < 0) digits[--first] = '-';
  Append({digits.data() + first, digits.size() - first});
}

}  // namespace bole
