// Hashes of prefixes of texts.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_PREFIX_HASH_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_PREFIX_HASH_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/hash/hash.h"

namespace bole {

// A hash of the tokens added so far.
class RollingHash {
 public:
  void Add(int32_t token) {
    hash_ = (hash_ ^ static_cast<uint32_t>(token)) * 0x9e3779b97f4a7c15;
    hash_ ^= hash_ >> 29;
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0x2545f4914f6cdd1d;
};

inline uint64_t HashOf(const std::string& key) {
  return absl::Hash<std::string>()(key);
}

inline uint64_t WithKey(uint64_t prefix, uint64_t key) {
  return absl::HashOf(prefix, key);
}

inline uint64_t PrefixHash(std::span<const int32_t> tokens) {
  RollingHash hash;
  for (const int32_t token : tokens) hash.Add(token);
  return hash.value();
}

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_PREFIX_HASH_H_
