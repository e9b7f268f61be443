#include "scheduler_service/replicas/checkpoint_copies.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace bole {

void CheckpointCopies::Forget(SlotId from) {
  std::erase_if(planned_,
                [from](const Copy& copy) { return copy.from == from; });
}

void CheckpointCopies::Send(MemoryCopies& copies) {
  for (const Copy& copy : planned_) {
    copies.slots.push_back({.from = copy.from, .to = copy.to.id()});
  }
  sent_ = std::move(planned_);
  planned_.clear();
}

void CheckpointCopies::Done(PrefixCache& cache) {
  for (Copy& copy : sent_) {
    cache.Add(copy.key, copy.tokens, copy.pages, std::move(copy.to),
              copy.facts);
  }
  sent_.clear();
}

bool CheckpointCopies::Awaits(const CacheQuery& query, int least) const {
  const auto is_of = [&](const Copy& copy) {
    return copy.facts.position >= least &&
           copy.facts.position < std::ssize(query.tokens) &&
           copy.key == query.key &&
           std::equal(copy.tokens.begin(), copy.tokens.end(),
                      query.tokens.begin());
  };
  return std::any_of(planned_.begin(), planned_.end(), is_of) ||
         std::any_of(sent_.begin(), sent_.end(), is_of);
}

void CheckpointCopies::AddReferences(MemoryReferences& references) const {
  for (const auto* copies : {&planned_, &sent_}) {
    for (const Copy& copy : *copies) {
      references.slots.push_back(copy.to.id());
      const std::vector<PageId>& ids = copy.pages.ids();
      references.pages.insert(references.pages.end(), ids.begin(), ids.end());
    }
  }
}

}  // namespace bole
