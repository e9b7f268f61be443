// Fast division by a number that is known at launch.
#ifndef BOLE_KERNELS_CUDA_DIVISOR_H_
#define BOLE_KERNELS_CUDA_DIVISOR_H_

#include <cstdint>

namespace bole::cuda {

// x / divisor without a division, where x * divisor is below 2^32.
struct Divisor {
  int divisor;
  uint64_t inverse;

  constexpr explicit Divisor(int d)
      : divisor(d),
        inverse(((uint64_t{1} << 32) + static_cast<uint64_t>(d) - 1) /
                static_cast<uint64_t>(d)) {}
  constexpr int Quotient(int x) const {
    return static_cast<int>(
        static_cast<uint64_t>(static_cast<uint32_t>(x)) * inverse >> 32);
  }
  constexpr int Remainder(int x) const { return x - Quotient(x) * divisor; }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_DIVISOR_H_
