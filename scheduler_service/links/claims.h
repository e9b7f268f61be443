// Which workers of a shared pool to ask for, and which to give back.
#ifndef BOLE_SCHEDULER_SERVICE_LINKS_CLAIMS_H_
#define BOLE_SCHEDULER_SERVICE_LINKS_CLAIMS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "scheduler_service/links/share.h"

namespace bole {

struct ClaimsOptions {
  // A worker that refused is asked again after this time.
  std::chrono::milliseconds retry{500};
  // One that sent this scheduler away, after this.
  std::chrono::milliseconds sent_away{5'000};
  // Who is asked and has not answered for so long, or does not answer at all,
  // keeps nobody from asking another one.
  std::chrono::milliseconds slow_answer{2'000};
  // A surplus is given back once the share has been the same for this long.
  // What is missing is asked for at once.
  std::chrono::milliseconds settle{2'000};
  // A worker counts as one of the pool for so long after it was last heard, so
  // that one that is started anew moves no other.
  std::chrono::milliseconds forget{60'000};
};

// Asks for workers while this scheduler has fewer of a model than its share,
// and gives back what it has above that. Workers themselves see to it that each
// obeys one scheduler: to ask for one that another has costs a refusal. So it
// does not matter when schedulers do not agree for a while on who lives.
//
// Every scheduler asks in an order of its own, first those that did not refuse
// lately, and gives back first what it got last.
//
// A state machine without threads, clocks or links: it is told what happened
// and what time it is, and answers with orders. Not thread-safe.
class Claims {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `instance`: that of this scheduler, which gives the order.
  explicit Claims(uint64_t instance, const ClaimsOptions& options = {})
      : instance_(instance), options_(options) {}

  // A worker is in the pool, again or for the first time, or no longer; it is
  // the scheduler's until it is lost.
  void Add(WorkerId worker, const std::string& address);
  void Remove(WorkerId worker);
  // It is not heard of any more. REQUIRES: it was removed.
  void Forget(WorkerId worker);

  // News of a worker that was added, and may be removed. It answered, and runs
  // `model`; empty: none that this scheduler serves.
  void Described(WorkerId id, const std::string& model, Time now);
  void Unreachable(WorkerId worker);
  // It obeys this scheduler.
  void Connected(WorkerId id, const std::string& model, Time now);
  enum class Loss {
    kClosed,    // This scheduler let it go.
    kSentAway,  // It wants to hear nothing of this scheduler for a while.
    kOther,     // It refused, or the connection broke.
  };
  void Lost(WorkerId id, Loss how, Time now);

  // This scheduler leaves: from now on no worker is asked for but those that
  // are lost under it, since requests may still need them. What is given back,
  // and when, is for who ends the requests.
  void Leave() { leaving_ = true; }

  struct Order {
    enum class Kind {
      kAsk,       // Connect, once. Connected() or Lost() follows.
      kGiveBack,  // Drain it, then close. Lost() follows.
      kKeep,      // It is not to be given back after all.
    };
    Kind kind;
    WorkerId worker;
    std::string why = {};  // For people.
    friend bool operator==(const Order&, const Order&) = default;
  };
  // What is to be done now. COST: O(workers log workers).
  std::vector<Order> Decide(const PlaceOf& place_of, Time now);

  // As Decide() found it last.
  const PoolShares& shares() const { return shares_; }

 private:
  enum class State { kWatched, kAsked, kHeld, kGivingBack };
  struct Worker {
    WorkerId id;
    uint64_t order = 0;  // Who is asked first.
    bool in_pool = true;
    State state = State::kWatched;
    std::string model = {};  // Empty: not known, or none that is served.
    bool answers = false;    // The last time that it was looked at.
    Time seen = {};
    Time not_before = {};  // Ask no earlier.
    Time since = {};       // Of the state.
    Time refused = {};     // When it refused last.
    bool wanted = false;   // Lost while this scheduler leaves.
  };
  // What Decide() remembers of a model.
  struct Settled {
    int share = -1;
    Time since = {};
  };
  using Workers = std::vector<Worker*>;

  void DecideModel(const std::string& model, Workers& workers,
                   const std::optional<Place>& place, Time now,
                   std::vector<Order>& orders);
  void Take(int missing, const std::string& why, Workers& workers, Time now,
            std::vector<Order>& orders);
  void GiveBack(int surplus, const std::string& why, Workers& workers, Time now,
                std::vector<Order>& orders);
  void AskForWanted(Time now, std::vector<Order>& orders);
  bool MayAsk(const Worker& worker, Time now) const;
  static Order Ask(Worker& worker, const std::string& why, Time now);

  const uint64_t instance_;
  const ClaimsOptions options_;
  bool leaving_ = false;
  std::map<WorkerId, Worker> workers_;
  std::map<std::string, Settled> settled_;  // By model.
  PoolShares shares_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_LINKS_CLAIMS_H_
