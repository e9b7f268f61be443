#include "scheduler_service/jobs/fair_queue.h"

#include <algorithm>

#include "common/check.h"

namespace bole {
namespace {

// The most idle tenants that are remembered. The least served ones are
// forgotten first, because that forgives the least.
constexpr size_t kMaxIdleTenants = 4096;

}  // namespace

bool FairQueue::Order::operator()(const Job* a, const Job* b) const {
  const int first = a->request().priority;
  const int second = b->request().priority;
  return first != second ? first > second : ByArrival()(*a, *b);
}

int64_t FairQueue::Level() const {
  return ranked_.empty() ? last_level_ : ranked_.begin()->first.served;
}

FairQueue::Tenant& FairQueue::Open(const std::string& name) {
  const auto [at, is_new] = tenants_.try_emplace(name);
  Tenant& tenant = at->second;
  if (is_new) {
    tenant.served = Level();
  } else if (tenant.rank) {
    ranked_.erase({*tenant.rank, name});
    tenant.rank.reset();
  } else {
    idle_.erase({tenant.served, name});
  }
  return tenant;
}

void FairQueue::Close(const std::string& name, Tenant& tenant) {
  if (!tenant.waiting.empty()) {
    const Job& next = **tenant.waiting.begin();
    tenant.rank = Rank{.served = tenant.served,
                       .arrival = next.request().arrival,
                       .job = next.id()};
    ranked_.insert({*tenant.rank, name});
  } else {
    idle_.insert({tenant.served, name});
  }
  last_level_ = std::max(last_level_, Level());
  while (!idle_.empty() &&
         (idle_.begin()->first <= Level() || idle_.size() > kMaxIdleTenants)) {
    tenants_.erase(idle_.begin()->second);
    idle_.erase(idle_.begin());
  }
}

void FairQueue::Push(Job& job) {
  const std::string& name = job.request().tenant;
  const int64_t level = Level();
  Tenant& tenant = Open(name);
  if (tenant.waiting.empty()) tenant.served = std::max(tenant.served, level);
  BOLE_CHECK(tenant.waiting.insert(&job).second);
  ++size_;
  tokens_ += job.request().prompt.size();
  bytes_ += job.request().bytes;
  Close(name, tenant);
}

Job* FairQueue::Front() const {
  if (ranked_.empty()) return nullptr;
  return *tenants_.at(ranked_.begin()->second).waiting.begin();
}

std::vector<Job*> FairQueue::Fronts() const {
  std::vector<Job*> fronts;
  fronts.reserve(ranked_.size());
  for (const auto& [rank, name] : ranked_) {
    fronts.push_back(*tenants_.at(name).waiting.begin());
  }
  return fronts;
}

void FairQueue::Remove(Job& job) {
  const std::string& name = job.request().tenant;
  Tenant& tenant = Open(name);
  BOLE_CHECK(tenant.waiting.erase(&job) == 1);
  --size_;
  tokens_ -= job.request().prompt.size();
  bytes_ -= job.request().bytes;
  Close(name, tenant);
}

void FairQueue::Charge(const Job& job, int64_t tokens) {
  const std::string& name = job.request().tenant;
  Tenant& tenant = Open(name);
  tenant.served += tokens;
  Close(name, tenant);
}

int64_t FairQueue::ServedOf(const std::string& name) const {
  const auto found = tenants_.find(name);
  return found == tenants_.end() ? Level()
                                 : std::max(found->second.served, Level());
}

int64_t FairQueue::Lead(const Job& a, const Job& b) const {
  return ServedOf(a.request().tenant) - ServedOf(b.request().tenant);
}

}  // namespace bole
