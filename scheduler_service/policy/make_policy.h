// The policy for a worker that has connected.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_MAKE_POLICY_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_MAKE_POLICY_H_

#include <cstdint>
#include <memory>

#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/policy/goodput_policy.h"
#include "scheduler_service/policy/policy_options.h"
#include "scheduler_service/policy/round_policy.h"

namespace bole {

// From this version of the protocol on a worker knows deferred drafts, draft
// tails, sequences that skip the drafter, and bounds of single trees in a
// lease.
inline constexpr uint32_t kDeferralProtocolVersion = 2;

// `history` is that of the worker's model. Policies that need costs do as the
// fixed one does with a worker that has no table, and say so: never is a cost
// guessed.
std::unique_ptr<RoundPolicy> MakePolicy(const PolicyOptions& options,
                                        const WorkerDescription& worker,
                                        std::shared_ptr<DraftHistory> history);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_MAKE_POLICY_H_
