// How much prefill shares the rounds lately.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_SHARED_PREFILLS_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_SHARED_PREFILLS_H_

#include <cstdint>

namespace bole {

// Chunks beside forests, and the tokens that rounds emit. Of some 300 rounds.
//
// Not thread-safe.
class SharedPrefills {
 public:
  void Shared(int64_t chunk_tokens);
  void Emitted(double tokens);  // In a round.

  // Of a chunk, on a grid; 0 if there were none.
  int chunk_tokens() const;
  double chunks_per_token() const { return chunks_ / tokens_; }

 private:
  double chunks_ = 0;
  double chunk_tokens_ = 0;
  double tokens_ = 256;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_SHARED_PREFILLS_H_
