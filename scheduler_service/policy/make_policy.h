// Makes the policy for a worker that has connected.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_MAKE_POLICY_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_MAKE_POLICY_H_

#include <cstdint>
#include <memory>

#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/policy/goodput_policy.h"
#include "scheduler_service/policy/policy_options.h"
#include "scheduler_service/policy/round_policy.h"

namespace bole {

// The first version of the protocol in which a worker supports deferred drafts,
// draft tails, sequences that skip the drafter, and bounds of single trees in a
// lease.
inline constexpr uint32_t kDeferralProtocolVersion = 2;

// `history` is that of the worker's model. For a worker without a table of
// costs, policies that need costs act as the fixed policy and report this as
// their fallback: costs are never guessed.
std::unique_ptr<RoundPolicy> MakePolicy(const PolicyOptions& options,
                                        const WorkerDescription& worker,
                                        std::shared_ptr<DraftHistory> history);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_MAKE_POLICY_H_
