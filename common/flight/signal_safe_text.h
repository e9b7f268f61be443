// Text that a signal handler can build.
#ifndef BOLE_COMMON_FLIGHT_SIGNAL_SAFE_TEXT_H_
#define BOLE_COMMON_FLIGHT_SIGNAL_SAFE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace bole {

// Appends to the caller's memory; what does not fit is left out. It neither
// allocates nor locks, so it is async-signal-safe.
class SignalSafeText {
 public:
  explicit SignalSafeText(std::span<char> room) : room_(room) {}

  void Append(std::string_view text);
  // `value` times 10^-decimals: "-0.012". REQUIRES: decimals <= 18.
  void AppendDecimal(int64_t value, int decimals);

  size_t size() const { return size_; }
  std::string_view text() const { return {room_.data(), size_}; }

 private:
  const std::span<char> room_;
  size_t size_ = 0;
};

}  // namespace bole

#endif  // BOLE_COMMON_FLIGHT_SIGNAL_SAFE_TEXT_H_
