// Rotary position embedding: its parameters and its frequencies.
#ifndef BOLE_WORKER_SERVICE_MODEL_ROPE_CONFIG_H_
#define BOLE_WORKER_SERVICE_MODEL_ROPE_CONFIG_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace bole {

// YaRN: stretches the slow frequencies to reach positions past training.
struct YarnScaling {
  double factor = 1;  // >= 1
  int original_max_positions = 0;
  // A frequency with more than beta_fast rotations over the original context is
  // kept; one with fewer than beta_slow is divided by `factor`.
  double beta_fast = 32;
  double beta_slow = 1;
  // The value of RotaryScale(); absent: from `factor`.
  std::optional<double> attention_factor = std::nullopt;

  friend bool operator==(const YarnScaling&, const YarnScaling&) = default;
};

// Rotates the first `rotary_dim` of a head's dimensions, dimension i together
// with i + rotary_dim / 2. This holds for text positions only, for which the
// sections of mRoPE coincide.
struct RopeConfig {
  int rotary_dim = 0;  // Even, at most the head's dimensions.
  double theta = 0;
  std::optional<YarnScaling> yarn = std::nullopt;

  friend bool operator==(const RopeConfig&, const RopeConfig&) = default;
};

// Reads `text`, the object with the language model's fields, which messages
// call `path`. `rope_parameters` takes precedence over the older fields
// `rope_theta`, `partial_rotary_factor` and `rope_scaling`.
//
// INVALID_ARGUMENT, naming the field, its value and what is allowed: a kind
// other than default and yarn, an odd or empty rotary part, a number out of
// range.
absl::StatusOr<RopeConfig> ReadRopeConfig(const nlohmann::json& text,
                                          const std::string& path,
                                          int head_dim);

// Radians per position, fastest first. [rotary_dim / 2]
std::vector<float> InverseFrequencies(const RopeConfig& rope);

// The factor of both cosine and sine: 1 without YaRN.
float RotaryScale(const RopeConfig& rope);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_ROPE_CONFIG_H_
