// Ranks that exchange through memory of the host.
#ifndef BOLE_WORKER_SERVICE_RANKS_HOST_COMMUNICATOR_H_
#define BOLE_WORKER_SERVICE_RANKS_HOST_COMMUNICATOR_H_

#include <memory>

#include "kernels/communicator.h"
#include "worker_service/ranks/rank_group.h"

namespace bole {

// The communicator of one rank, which may be a thread or a process. A rank that
// waits is blocked. It waits for the others to make a call for the deadline of
// the group at most, from its own arrival on. The end of the group is the error
// of all calls, and the error of a call is the end of the group.
//
// COST: every 256 KiB of a part wake each rank once, and are copied once;
// AllReduce reads num_ranks parts.
// REQUIRES: 0 <= rank < group->num_ranks(), and there is no other communicator
// of that rank, nor was one.
std::unique_ptr<Communicator> MakeHostCommunicator(
    std::shared_ptr<RankGroup> group, int rank);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_HOST_COMMUNICATOR_H_
