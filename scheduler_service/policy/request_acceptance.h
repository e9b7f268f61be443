// How far the drafts for one request come true.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_REQUEST_ACCEPTANCE_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_REQUEST_ACCEPTANCE_H_

namespace bole {

// Accepted over promised drafts of one request, in comparison with those of its
// model. Begins at 1, and returns there while nothing is seen. It outlives the
// worker that runs the request.
//
// Not thread-safe.
class RequestAcceptance {
 public:
  double factor() const { return accepted_ / promised_; }

  // A round that was promised `promised` drafts accepted `accepted` of them.
  // REQUIRES: promised >= 0.
  void Observe(double promised, double accepted) {
    Forget();
    promised_ += promised;
    accepted_ += accepted;
  }
  // A round that says nothing.
  void Forget() {
    promised_ = kPrior + kKept * (promised_ - kPrior);
    accepted_ = kPrior + kKept * (accepted_ - kPrior);
  }

 private:
  static constexpr double kPrior = 16;   // Drafts that weigh as much as it.
  static constexpr double kKept = 0.97;  // Of the evidence, in every round.

  double promised_ = kPrior;
  double accepted_ = kPrior;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_REQUEST_ACCEPTANCE_H_
