// Communication of ranks through memory of the host.
#ifndef BOLE_WORKER_SERVICE_RANKS_HOST_COMMUNICATOR_H_
#define BOLE_WORKER_SERVICE_RANKS_HOST_COMMUNICATOR_H_

#include <memory>

#include "kernels/communicator.h"
#include "worker_service/ranks/rank_group.h"

namespace bole {

// The communicator of one rank, which may be a thread or a process. A waiting
// rank is blocked. From its own arrival at a call it waits for the other ranks
// for at most the group's deadline. Once the group has ended, all calls return
// its error, and a call that fails ends the group.
//
// COST: for every 256 KiB of a part, each rank is woken once, and the part is
// copied once; AllReduce reads num_ranks parts.
// REQUIRES: 0 <= rank < group->num_ranks(), and that rank has not had another
// communicator.
std::unique_ptr<Communicator> MakeHostCommunicator(
    std::shared_ptr<RankGroup> group, int rank);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_HOST_COMMUNICATOR_H_
