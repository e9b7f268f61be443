// Decides which workers of a shared pool to request, and which to give back.
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
  // A worker that sent this scheduler away is asked again after this time.
  std::chrono::milliseconds sent_away{5'000};
  // A worker that was asked and has not answered for this long, if it answers
  // at all, does not keep the scheduler from asking another one.
  std::chrono::milliseconds slow_answer{2'000};
  // A surplus is given back once the share has been the same for this long.
  // What is missing is requested at once.
  std::chrono::milliseconds settle{2'000};
  // A worker counts as part of the pool for this long after it was last heard,
  // so that the restart of one moves no other.
  std::chrono::milliseconds forget{60'000};
};

// Requests workers while this scheduler has fewer of a model than its share,
// and gives back what it has above that. The workers themselves ensure that
// each obeys one scheduler: a request for one that another scheduler has is
// merely refused. So it does no harm if schedulers disagree for a while on
// which of them are alive.
//
// Every scheduler asks workers in an order of its own, first those that did not
// refuse lately, and gives back first those that it got last.
//
// A state machine without threads, clocks or links: it is told what happened
// and what time it is, and answers with orders. Not thread-safe.
class Claims {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `instance` is that of this scheduler, and determines the order.
  explicit Claims(uint64_t instance, const ClaimsOptions& options = {})
      : instance_(instance), options_(options) {}

  // A worker has joined the pool, again or for the first time, or has left it.
  // If this scheduler has the worker, it keeps it until it is lost.
  void Add(WorkerId worker, const std::string& address);
  void Remove(WorkerId worker);
  // Nothing more will be reported of it. REQUIRES: it was removed.
  void Forget(WorkerId worker);

  // News of a worker that was added, and may have been removed. It answered,
  // and runs `model`; empty: none that this scheduler serves.
  void Described(WorkerId id, const std::string& model, Time now);
  void Unreachable(WorkerId worker);
  // It obeys this scheduler from now on.
  void Connected(WorkerId id, const std::string& model, Time now);
  enum class Loss {
    kClosed,    // This scheduler let it go.
    kSentAway,  // It wants no connection to this one for a while.
    kOther,     // It refused, or the connection broke.
  };
  void Lost(WorkerId id, Loss how, Time now);

  // This scheduler leaves: from now on it requests only workers that it loses
  // while it leaves, because its requests may still need them. Whoever ends the
  // requests decides what is given back, and when.
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
  // Returns what is to be done now. COST: O(workers log workers).
  std::vector<Order> Decide(const PlaceOf& place_of, Time now);

  // The shares that the latest Decide() found.
  const PoolShares& shares() const { return shares_; }

 private:
  enum class State { kWatched, kAsked, kHeld, kGivingBack };
  struct Worker {
    WorkerId id;
    uint64_t order = 0;  // The lowest is asked first.
    bool in_pool = true;
    State state = State::kWatched;
    std::string model = {};  // Empty: not known, or none that is served.
    bool answers = false;    // It answered the latest look.
    Time seen = {};
    Time not_before = {};  // Ask no earlier.
    Time since = {};       // When the state began.
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
