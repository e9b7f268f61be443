// The main function of a process that is a rank.
#ifndef BOLE_WORKER_SERVICE_RANKS_RANK_MAIN_H_
#define BOLE_WORKER_SERVICE_RANKS_RANK_MAIN_H_

#include <optional>

#include "worker_service/ranks/rank_part.h"

namespace bole {

// RankProcesses starts a rank as PROGRAM kRankCommand RANK, with the memory of
// the group as descriptor kGroupDescriptor.
inline constexpr char kRankCommand[] = "--run-as-rank";
inline constexpr int kGroupDescriptor = 3;

// To be called by main() before anything else: if this process was started as a
// rank, runs the rank to its end and returns the exit status. A rank that fails
// ends the group and then the process, without running destructors, because
// those wait for the device. The process is killed when the process of the
// first rank ends.
std::optional<int> RunIfRankProcess(
    int argc, const char* const* argv,
    const MakeBackend& make_backend = MakeNamedBackend);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_RANK_MAIN_H_
