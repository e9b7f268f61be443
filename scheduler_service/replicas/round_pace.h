// Measures how fast a worker is.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_ROUND_PACE_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_ROUND_PACE_H_

namespace bole {

// The time of a worker's rounds: a time for each round, and more for each token
// of prefill. Both are means of recent rounds. Until a round without prefill
// was seen, rounds with prefill are used in its place.
//
// Not thread-safe.
class RoundPace {
 public:
  void Took(double seconds, int prefill_tokens);

  double round_seconds() const { return round_seconds_; }  // 0: not known.
  double token_seconds() const { return token_seconds_; }
  double Expected(int prefill_tokens) const {
    return round_seconds_ + prefill_tokens * token_seconds_;
  }

 private:
  double round_seconds_ = 0;
  double token_seconds_ = 0;
  bool saw_plain_round_ = false;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_ROUND_PACE_H_
