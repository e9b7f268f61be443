// The flags for latency targets of a request, and the message that they become.
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

  // The server checks the upper bounds, since it knows them.
  void AddTo(CommandLine& command);

  // Absent if there is no target.
  std::optional<v1::LatencyTargets> ToProto() const;
};

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_TARGET_FLAGS_H_
