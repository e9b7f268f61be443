// The version of what scheduler and worker say to each other.
#ifndef BOLE_PROTO_PROTOCOL_VERSION_H_
#define BOLE_PROTO_PROTOCOL_VERSION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace bole {

// Goes up by one with a release that changes worker.proto, or what a message
// means. Neighbours work together, so that a fleet can be upgraded process by
// process. 0 stands for peers that do not tell a version, and is refused.
inline constexpr uint32_t kProtocolVersion = 3;

// FAILED_PRECONDITION, with both versions, unless the peer's differs from ours
// by at most one. `peer` is "worker" or "scheduler".
inline absl::Status CheckProtocolVersion(const char* peer, uint32_t version) {
  const int64_t difference = int64_t{version} - int64_t{kProtocolVersion};
  if (difference >= -1 && difference <= 1) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the ", peer, "'s protocol_version is ", version, ", this side's is ",
      kProtocolVersion, "; they may differ by 1 at most"));
}

}  // namespace bole

#endif  // BOLE_PROTO_PROTOCOL_VERSION_H_
