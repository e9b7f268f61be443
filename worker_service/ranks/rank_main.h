// A process that is a rank, from main() to its exit status.
#ifndef BOLE_WORKER_SERVICE_RANKS_RANK_MAIN_H_
#define BOLE_WORKER_SERVICE_RANKS_RANK_MAIN_H_

#include <optional>

#include "worker_service/ranks/rank_part.h"

namespace bole {

// How RankProcesses starts a rank: PROGRAM kRankCommand RANK, with the memory
// of the group as this descriptor.
inline constexpr char kRankCommand[] = "--run-as-rank";
inline constexpr int kGroupDescriptor = 3;

// For main(), before it does anything else: if this process was started as a
// rank, runs it to its end, and returns the exit status. A rank that fails ends
// the group and then the process, without destructors, because those wait for
// the device. It dies with the process of the first rank.
std::optional<int> RunIfRankProcess(
    int argc, const char* const* argv,
    const MakeBackend& make_backend = MakeNamedBackend);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_RANK_MAIN_H_
