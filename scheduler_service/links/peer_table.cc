#include "scheduler_service/links/peer_table.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace bole {
namespace {

std::string Listed(const char* what, const std::vector<std::string>& names) {
  return names.empty() ? "" : absl::StrCat(what, absl::StrJoin(names, ", "));
}

}  // namespace

std::string ToString(const PeerView& view) {
  std::vector<std::string> living;
  for (const Peer& peer : view.living) living.push_back(peer.name);
  return absl::StrCat(Listed("shares its workers: ", living),
                      Listed("; leaving: ", view.leaving),
                      Listed("; silent: ", view.silent));
}

std::optional<Place> PlaceIn(const PeerView& view, uint64_t instance,
                             const std::string& model) {
  if (!view.settled) return std::nullopt;
  Place place{.rank = -1, .of = 0};
  for (const Peer& peer : view.living) {
    const std::vector<std::string>& models = peer.models;
    if (std::find(models.begin(), models.end(), model) == models.end()) {
      continue;
    }
    if (peer.instance == instance) place.rank = place.of;
    ++place.of;
  }
  if (place.rank < 0) return std::nullopt;
  return place;
}

PeerTable::PeerTable(Peer self, const std::vector<std::string>& names,
                     std::chrono::milliseconds patience, Time now)
    : self_(std::move(self)), patience_(patience), started_(now) {
  for (const std::string& name : names) found_[name];
}

void PeerTable::SetAddresses(const std::string& name,
                             std::vector<std::string> addresses) {
  for (const std::string& address : addresses) addresses_[address];
  found_[name] = std::move(addresses);
}

bool PeerTable::IsFound(const std::string& address) const {
  return std::any_of(found_.begin(), found_.end(), [&](const auto& of) {
    return of.second && std::find(of.second->begin(), of.second->end(),
                                  address) != of.second->end();
  });
}

std::vector<std::string> PeerTable::addresses(Time now) const {
  std::vector<std::string> to_ask;
  for (const auto& [address, of] : addresses_) {
    if (IsHeard(of, now) || IsFound(address)) to_ask.push_back(address);
  }
  return to_ask;
}

void PeerTable::Answered(const std::string& address, const Peer& peer,
                         Time now) {
  const auto at = addresses_.find(address);
  if (at == addresses_.end()) return;
  // A scheduler that answered here before with another instance is gone.
  at->second = {.tried = true, .peer = peer, .heard = now};
}

void PeerTable::Failed(const std::string& address) {
  const auto at = addresses_.find(address);
  if (at != addresses_.end()) at->second.tried = true;
}

void PeerTable::Left(uint64_t instance) {
  for (auto& [address, of] : addresses_) {
    if (of.peer && of.peer->instance == instance) of.peer->leaving = true;
  }
}

bool PeerTable::IsLiving(uint64_t instance, Time now) const {
  return std::any_of(
      addresses_.begin(), addresses_.end(), [&](const auto& named) {
        const Address& of = named.second;
        return IsHeard(of, now) && of.peer->instance == instance &&
               !of.peer->leaving;
      });
}

bool PeerTable::IsSettled(Time now) const {
  if (now - started_ >= patience_) return true;
  return std::all_of(found_.begin(), found_.end(), [&](const auto& named) {
    const auto& found = named.second;
    return found &&
           std::all_of(found->begin(), found->end(), [&](const auto& address) {
             return addresses_.at(address).tried;
           });
  });
}

PeerView PeerTable::View(Time now) const {
  PeerView view;
  view.settled = IsSettled(now);
  std::set<uint64_t> told = {self_.instance};
  if (self_.leaving) {
    view.leaving.push_back(self_.name);
  } else {
    view.living.push_back(self_);
  }
  for (const auto& [address, of] : addresses_) {
    if (!IsHeard(of, now) || !told.insert(of.peer->instance).second) continue;
    if (of.peer->leaving) {
      view.leaving.push_back(of.peer->name);
    } else {
      view.living.push_back(*of.peer);
    }
  }
  for (const auto& [address, of] : addresses_) {
    if (IsHeard(of, now) || !IsFound(address)) continue;
    if (of.peer && !told.insert(of.peer->instance).second) continue;
    view.silent.push_back(of.peer ? of.peer->name : address);
  }
  std::sort(view.living.begin(), view.living.end(),
            [](const Peer& a, const Peer& b) {
              return std::tie(a.started_us, a.instance) <
                     std::tie(b.started_us, b.instance);
            });
  return view;
}

}  // namespace bole
