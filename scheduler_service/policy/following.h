// Which requests the drafter follows while drafting does not pay.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_FOLLOWING_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_FOLLOWING_H_

#include <cstdint>

namespace bole {

// A drafter that follows a request runs its layer on each token, whether it
// drafts or not; once it has missed a token, it can never draft for that
// placement again. So this class decides for newcomers as they arrive, and for
// all running requests together.
//
// - While drafting pays for the batch as it is, or would make one request alone
//   much faster, or nobody knows yet whether it would, all are followed.
// - While it is known not to pay, newcomers are not followed. Requests that are
//   followed stay so until kTrials trials have failed, or until drafting was
//   hopeless for kHopelessPlans consecutive plans, in which nothing is tried.
//   Then no request is followed any more: the drafter is dormant, and rounds
//   cost what they cost with speculation off.
// - A probe is a newcomer that is followed nevertheless, for a trial on it
//   alone. Probes and trials together may lose a hundredth of the time
//   (DraftTrials).
//
// So a change of drafts or costs that makes drafting pay is noticed through
// newcomers: the next one after a hundred times the time that a probe loses is
// a probe, and from its trial on newcomers are followed if drafting pays.
// Requests that already run then remain unfollowed until they end. Without
// newcomers such a change is not noticed, but a batch that has become smaller
// is judged anew at once.
//
// Not thread-safe.
class Following {
 public:
  static constexpr int kTrials = 4;
  static constexpr int kHopelessPlans = 64;

  struct Turn {
    // Drafting would pay if all were followed, or it would help the last
    // remaining request much.
    bool pays = false;
    bool is_known = false;     // The acceptance is, or that it is hopeless.
    bool is_hopeless = false;  // Drafting does not pay at any acceptance.
    int64_t trials = 0;        // How many trials have begun so far.
    int followed = 0;          // Placements, in prefill or after it.
    int arrivals = 0;
    bool affords_probe = false;
  };
  struct Decision {
    bool keeps_up = true;  // Followed requests stay so.
    int arrivals = 0;      // How many newcomers are followed.
    bool probes = false;   // The first of them is a probe.
  };
  // Must be called for every plan.
  Decision Decide(const Turn& turn);
  // The probe's trial has ended.
  void Tried() { probing_ = false; }

 private:
  int64_t trials_ = 0;  // Turn::trials when drafting last paid or was unknown.
  int hopeless_ = 0;    // Consecutive plans.
  bool probing_ = false;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_FOLLOWING_H_
