// The flags for sampling, and the message that they become.
#ifndef BOLE_CLIENTS_CLI_SAMPLING_FLAGS_H_
#define BOLE_CLIENTS_CLI_SAMPLING_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/command_line.h"
#include "proto/bole.pb.h"

namespace bole {

// Absent: the server's default.
struct SamplingFlags {
  std::optional<int32_t> max_tokens;
  std::optional<int32_t> min_tokens;
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int32_t> top_k;
  std::optional<float> min_p;
  std::optional<float> frequency_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> repetition_penalty;
  std::optional<uint64_t> seed;
  std::optional<int32_t> logprobs;
  std::vector<std::string> stop;
  bool ignore_eos = false;

  // The server checks the ranges, since it knows them.
  void AddTo(CommandLine& command);

  v1::SamplingParams ToProto() const;
};

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_SAMPLING_FLAGS_H_
