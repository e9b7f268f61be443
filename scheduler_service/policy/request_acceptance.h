// How often the drafts for one request are accepted.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_REQUEST_ACCEPTANCE_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_REQUEST_ACCEPTANCE_H_

namespace bole {

// The ratio of accepted to promised drafts of one request, relative to that of
// its model. It begins at 1, and returns there while there is no evidence. It
// outlives the worker that runs the request.
//
// Not thread-safe.
class RequestAcceptance {
 public:
  double factor() const { return accepted_ / promised_; }

  // A round accepted `accepted` of `promised` promised drafts.
  // REQUIRES: promised >= 0.
  void Observe(double promised, double accepted) {
    Forget();
    promised_ += promised;
    accepted_ += accepted;
  }
  // A round without evidence: older evidence loses weight.
  void Forget() {
    promised_ = kPrior + kKept * (promised_ - kPrior);
    accepted_ = kPrior + kKept * (accepted_ - kPrior);
  }

 private:
  static constexpr double kPrior = 16;  // The weight of the prior, in drafts.
  // The share of the evidence that is kept in each round.
  static constexpr double kKept = 0.97;

  double promised_ = kPrior;
  double accepted_ = kPrior;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_REQUEST_ACCEPTANCE_H_
