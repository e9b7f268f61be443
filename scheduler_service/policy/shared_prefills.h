// How much prefill has lately shared rounds with decoding.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_SHARED_PREFILLS_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_SHARED_PREFILLS_H_

#include <cstdint>

namespace bole {

// Counts the prefill chunks that share a round with a forest, and the tokens
// that rounds emit, over some 300 recent rounds.
//
// Not thread-safe.
class SharedPrefills {
 public:
  void Shared(int64_t chunk_tokens);
  void Emitted(double tokens);  // In a round.

  // The mean tokens of a chunk, on the prefill grid; 0 if there were no chunks.
  int chunk_tokens() const;
  double chunks_per_token() const { return chunks_ / tokens_; }

 private:
  double chunks_ = 0;
  double chunk_tokens_ = 0;
  double tokens_ = 256;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_SHARED_PREFILLS_H_
