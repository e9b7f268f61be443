// Ranks that are threads of one process.
#ifndef BOLE_WORKER_SERVICE_RANKS_HOST_COMMUNICATOR_H_
#define BOLE_WORKER_SERVICE_RANKS_HOST_COMMUNICATOR_H_

#include <chrono>
#include <memory>
#include <vector>

#include "kernels/communicator.h"

namespace bole {

// The communicators of `num_ranks` ranks, by rank. They exchange through the
// memory of the process: each reads the others' parts where they are. A rank
// that waits is blocked and takes no time of a processor. It waits for the
// others to make a call for `deadline` at most, from its own arrival on.
//
// COST: a call wakes every rank twice; AllReduce reads num_ranks parts.
// REQUIRES: num_ranks >= 1.
std::vector<std::unique_ptr<Communicator>> MakeHostCommunicators(
    int num_ranks, std::chrono::milliseconds deadline);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_HOST_COMMUNICATOR_H_
