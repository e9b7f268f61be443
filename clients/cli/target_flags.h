// The latencies that a request is to have: flags, and the message that they
// become.
#ifndef BOLE_CLIENTS_CLI_TARGET_FLAGS_H_
#define BOLE_CLIENTS_CLI_TARGET_FLAGS_H_

#include <optional>

#include "common/command_line.h"
#include "proto/bole.pb.h"

namespace bole {

// In milliseconds. Absent: none is sent.
struct TargetFlags {
  std::optional<int> ttft_ms;
  std::optional<int> tpot_ms;

  // Upper bounds are left to the server, which knows them.
  void AddTo(CommandLine& command);

  // Nothing without a target.
  std::optional<v1::LatencyTargets> ToProto() const;
};

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_TARGET_FLAGS_H_
