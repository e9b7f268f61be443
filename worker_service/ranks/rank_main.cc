#include "worker_service/ranks/rank_main.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker_service/ranks/rank_group.h"

namespace bole {
namespace {

absl::Status RunRank(const std::string& number,
                     const MakeBackend& make_backend) {
  BOLE_ASSIGN_OR_RETURN(const std::shared_ptr<RankGroup> group,
                        RankGroup::Join(kGroupDescriptor));
  int rank = 0;
  if (!absl::SimpleAtoi(number, &rank) || rank < 1 ||
      rank >= group->num_ranks()) {
    return absl::InvalidArgumentError(
        absl::StrCat(number, " is no rank of ", group->num_ranks()));
  }
  prctl(PR_SET_NAME, absl::StrCat("bole-rank-", rank).c_str());
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The first rank may have died before the call above.
  if (getppid() != group->owner()) {
    return absl::UnavailableError("the first rank has ended");
  }
  return FollowFirstRank(group, rank, make_backend, [] { std::_Exit(1); });
}

}  // namespace

std::optional<int> RunIfRankProcess(int argc, const char* const* argv,
                                    const MakeBackend& make_backend) {
  if (argc != 3 || argv[1] != std::string_view(kRankCommand)) {
    return std::nullopt;
  }
  const absl::Status status = RunRank(argv[2], make_backend);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s %s: %s\n", argv[0], kRankCommand,
               status.ToString().c_str());
  return 1;
}

}  // namespace bole
