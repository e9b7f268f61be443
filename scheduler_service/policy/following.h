// Whom the drafter follows while drafting does not pay.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_FOLLOWING_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_FOLLOWING_H_

#include <cstdint>

namespace bole {

// A drafter that is shown every token costs its layer for each of them, drafted
// for or not; and one that has missed a token can never draft for that
// placement again. So this decides for newcomers as they arrive, and for those
// who run together.
//
// - While drafting pays for the batch as it is, or would make one request alone
//   much faster, or nobody knows yet whether it would, all are followed.
// - While it is known not to pay, newcomers are not followed. Who is followed
//   stays so until kTrials trials have failed, or until drafting was hopeless
//   for kHopelessPlans plans on end, in which nothing is tried. Then all are
//   left behind: the drafter is dormant, and rounds cost what they cost with
//   speculation off.
// - A probe is a newcomer that is followed even so, for a trial on it alone.
//   Probes and trials together may lose a hundredth of the time (DraftTrials).
//
// So a change of drafts or costs after which drafting pays is seen once enough
// newcomers have come: the next one after a hundred times the time that a probe
// loses has passed is a probe, and from its trial on newcomers are followed if
// drafting pays. Those who run then end as they are. Nothing is seen while
// nobody comes; but a batch that has become smaller is judged anew at once.
//
// Not thread-safe.
class Following {
 public:
  static constexpr int kTrials = 4;
  static constexpr int kHopelessPlans = 64;

  struct Turn {
    // Drafting would, were all followed, or it would be of much use to whoever
    // is left alone.
    bool pays = false;
    bool is_known = false;     // How drafts come true, or that it is hopeless.
    bool is_hopeless = false;  // Drafting does not pay whatever comes true.
    int64_t trials = 0;        // How many trials have begun so far.
    int followed = 0;          // Placements, in prefill or past it.
    int arrivals = 0;
    bool affords_probe = false;
  };
  struct Decision {
    bool keeps_up = true;  // Who is followed stays so.
    int arrivals = 0;      // How many newcomers are followed.
    bool probes = false;   // The first of them is a probe.
  };
  // To be called for every plan.
  Decision Decide(const Turn& turn);
  // The probe's trial has ended.
  void Tried() { probing_ = false; }

 private:
  int64_t trials_ = 0;  // When drafting last paid or was unknown.
  int hopeless_ = 0;    // Plans on end.
  bool probing_ = false;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_FOLLOWING_H_
