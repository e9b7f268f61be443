// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011): random bits as a pure
// function of a counter and a key. Usable on the device; needs no state.
#ifndef BOLE_COMMON_PHILOX_H_
#define BOLE_COMMON_PHILOX_H_

#include <cstdint>

#if defined(__CUDACC__)
#define BOLE_HOST_DEVICE __host__ __device__
#else
#define BOLE_HOST_DEVICE
#endif

namespace bole {

struct PhiloxCounter {
  uint32_t word[4];
};

struct PhiloxKey {
  uint32_t word[2];
};

// One of the ten rounds: two products, their halves crossed and keyed.
BOLE_HOST_DEVICE constexpr PhiloxCounter PhiloxRound(const PhiloxCounter& c,
                                                     const PhiloxKey& key) {
  const uint64_t product0 = uint64_t{0xD2511F53} * c.word[0];
  const uint64_t product1 = uint64_t{0xCD9E8D57} * c.word[2];
  return {{static_cast<uint32_t>(product1 >> 32) ^ c.word[1] ^ key.word[0],
           static_cast<uint32_t>(product1),
           static_cast<uint32_t>(product0 >> 32) ^ c.word[3] ^ key.word[1],
           static_cast<uint32_t>(product0)}};
}

// Four independent words of 32 random bits.
BOLE_HOST_DEVICE constexpr PhiloxCounter Philox(PhiloxCounter counter,
                                                PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    if (round > 0) {
      key.word[0] += 0x9E3779B9;
      key.word[1] += 0xBB67AE85;
    }
    counter = PhiloxRound(counter, key);
  }
  return counter;
}

}  // namespace bole

#undef BOLE_HOST_DEVICE

#endif  // BOLE_COMMON_PHILOX_H_
