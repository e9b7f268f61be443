#ifndef BOLE_COMMON_STRONG_ID_H_
#define BOLE_COMMON_STRONG_ID_H_

#include <compare>
#include <cstdint>
#include <utility>

namespace bole {

// An integer that cannot be mistaken for another kind of integer: ids of two
// tags neither convert to each other nor compare. There is no default value: an
// absent id is an empty std::optional, never -1. Ordered, and hashable by
// absl's containers.
template <typename Tag, typename Value = int32_t>
class StrongId {
 public:
  constexpr explicit StrongId(Value value) : value_(value) {}
  constexpr Value value() const { return value_; }

  friend constexpr auto operator<=>(StrongId, StrongId) = default;

  template <typename H>
  friend H AbslHashValue(H h, StrongId id) {
    return H::combine(std::move(h), id.value_);
  }

 private:
  Value value_;
};

}  // namespace bole

#endif  // BOLE_COMMON_STRONG_ID_H_
