// Knows which of the schedulers that share a pool are alive.
#ifndef BOLE_SCHEDULER_SERVICE_LINKS_PEER_TABLE_H_
#define BOLE_SCHEDULER_SERVICE_LINKS_PEER_TABLE_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler_service/links/share.h"

namespace bole {

// What a scheduler says of itself to another one.
struct Peer {
  uint64_t instance = 0;                 // Random for each process, not 0.
  int64_t started_us = 0;                // Since 1970, by its own clock.
  std::string name = {};                 // For people.
  std::vector<std::string> models = {};  // Those that it serves.
  bool leaving = false;
};

// The schedulers that share the pool at one moment.
struct PeerView {
  // All of them had time to answer: one that is missing is not alive.
  bool settled = false;
  std::vector<Peer> living;          // This one included; the oldest first.
  std::vector<std::string> leaving;  // Names.
  std::vector<std::string> silent;   // Names, or addresses that never answered.
};

// For people: "shares its workers: a:1, b:1; silent: c:1".
std::string ToString(const PeerView& view);

// The place of the scheduler `instance` among the living ones that serve
// `model`; none if the view is not settled, or it is not among them.
std::optional<Place> PlaceIn(const PeerView& view, uint64_t instance,
                             const std::string& model);

// Remembers which address answered when, and as which scheduler. A scheduler is
// alive if it answered within `patience`, at any address, and does not leave.
// This scheduler is alive until it leaves; if it answers its own pings, it is
// recognized by its instance.
//
// A state machine without threads or clocks. Not thread-safe.
class PeerTable {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `names` are those for which SetAddresses() will be called.
  PeerTable(Peer self, const std::vector<std::string>& names,
            std::chrono::milliseconds patience, Time now);

  // Sets the addresses of a name from now on. Addresses that it no longer has
  // are kept until they are silent: a name service may leave out a scheduler
  // that is not ready.
  void SetAddresses(const std::string& name,
                    std::vector<std::string> addresses);
  // The addresses to ping, each once.
  std::vector<std::string> addresses(Time now) const;

  void Answered(const std::string& address, const Peer& peer, Time now);
  void Failed(const std::string& address);
  // Notes that the scheduler `instance` has announced that it leaves. Does
  // nothing if no peer has answered with that instance.
  void Left(uint64_t instance);
  void LeaveSelf() { self_.leaving = true; }

  const Peer& self() const { return self_; }
  bool IsLiving(uint64_t instance, Time now) const;
  PeerView View(Time now) const;

 private:
  struct Address {
    bool tried = false;
    std::optional<Peer> peer;  // Who answered last.
    Time heard;
  };

  bool IsFound(const std::string& address) const;
  bool IsHeard(const Address& address, Time now) const {
    return address.peer && now - address.heard < patience_;
  }
  bool IsSettled(Time now) const;

  Peer self_;
  const std::chrono::milliseconds patience_;
  const Time started_;
  // The addresses of each name; none: not known yet.
  std::map<std::string, std::optional<std::vector<std::string>>> found_;
  std::map<std::string, Address> addresses_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_LINKS_PEER_TABLE_H_
