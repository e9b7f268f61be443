// Buffers that show when an operator reads or writes what it should not.
#ifndef BOLE_TESTS_TESTING_GUARDED_BUFFER_H_
#define BOLE_TESTS_TESTING_GUARDED_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

namespace bole::testing {

// What unwritten memory holds: NaN, which spreads to every result computed from
// it, or an index far out of any range.
template <typename T>
constexpr T Poison() {
  if constexpr (std::is_floating_point_v<T>) {
    return std::numeric_limits<T>::quiet_NaN();
  } else {
    return static_cast<T>(0x5ca1ab1e);
  }
}

// `size` elements of poison between two guard zones. Copies are independent.
template <typename T>
class GuardedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  GuardedBuffer() : GuardedBuffer(0) {}
  explicit GuardedBuffer(size_t size)
      : memory_(size + 2 * kGuard, Poison<T>()) {
    std::memset(memory_.data(), kCanary, kGuard * sizeof(T));
    std::memset(memory_.data() + kGuard + size, kCanary, kGuard * sizeof(T));
  }

  size_t size() const { return memory_.size() - 2 * kGuard; }
  T* data() { return memory_.data() + kGuard; }
  const T* data() const { return memory_.data() + kGuard; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }

  std::span<T> span(size_t first, size_t count) {
    return {data() + first, count};
  }
  std::span<const T> span(size_t first, size_t count) const {
    return {data() + first, count};
  }
  std::span<const T> all() const { return span(0, size()); }

  // Nothing was written before or after the buffer.
  bool GuardsIntact() const {
    return IsCanary(memory_.data()) && IsCanary(data() + size());
  }

 private:
  static constexpr size_t kGuard = 64;  // Elements.
  static constexpr unsigned char kCanary = 0xa5;

  static bool IsCanary(const T* zone) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(zone);
    return std::all_of(bytes, bytes + kGuard * sizeof(T),
                       [](unsigned char byte) { return byte == kCanary; });
  }

  std::vector<T> memory_;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_TESTING_GUARDED_BUFFER_H_
