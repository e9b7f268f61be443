#include "worker_service/model/rope_config.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker_service/model/json_fields.h"

namespace bole {
namespace {

using nlohmann::json;

constexpr double kDefaultTheta = 10000;
constexpr double kDefaultRotaryFactor = 0.25;
constexpr NumberRange kThetaRange = {1.001, 1e15};
constexpr NumberRange kRotaryFactorRange = {0, 1};
constexpr NumberRange kBetaRange = {1e-6, 1e6};

// Returns nullopt without an error if `fields` says "default" or nothing.
std::optional<YarnScaling> ReadYarn(JsonFields& fields) {
  const char* kind_key = fields.Has("rope_type") ? "rope_type" : "type";
  if (fields.OneOf(kind_key, {"default", "yarn"}) != "yarn") {
    return std::nullopt;
  }
  for (const char* key : {"mscale", "mscale_all_dim", "truncate"}) {
    fields.OnlyAbsent(key, "is not supported");
  }
  YarnScaling yarn;
  yarn.factor = fields.Number("factor", {1, 1024});
  yarn.original_max_positions =
      fields.Int("original_max_position_embeddings", {1, 1 << 28});
  yarn.beta_fast = fields.Number("beta_fast", kBetaRange, yarn.beta_fast);
  yarn.beta_slow = fields.Number("beta_slow", kBetaRange, yarn.beta_slow);
  if (fields.Has("attention_factor")) {
    yarn.attention_factor = fields.Number("attention_factor", {1e-3, 1e3});
  }
  if (yarn.beta_fast <= yarn.beta_slow) {
    fields.Fail("beta_fast",
                absl::StrCat(yarn.beta_fast, ", expected more than beta_slow, ",
                             yarn.beta_slow));
  }
  return yarn;
}

// The (fractional) index of the frequency that turns `rotations` times over
// the original context.
double IndexOfRotations(const RopeConfig& rope, double rotations) {
  const double positions = rope.yarn->original_max_positions;
  return rope.rotary_dim *
         std::log(positions / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

// How far frequency i is stretched, from 0 (kept) to 1 (divided by the
// factor), for every i. [rotary_dim / 2]
std::vector<double> YarnRamp(const RopeConfig& rope) {
  const double last = rope.rotary_dim - 1;
  const double low = std::clamp(
      std::floor(IndexOfRotations(rope, rope.yarn->beta_fast)), 0.0, last);
  const double high = std::clamp(
      std::ceil(IndexOfRotations(rope, rope.yarn->beta_slow)), 0.0, last);
  const double width = std::max(high - low, 0.001);  // A step if they meet.
  std::vector<double> ramp(static_cast<size_t>(rope.rotary_dim / 2));
  for (size_t i = 0; i < ramp.size(); ++i) {
    ramp[i] = std::clamp((static_cast<double>(i) - low) / width, 0.0, 1.0);
  }
  return ramp;
}

}  // namespace

absl::StatusOr<RopeConfig> ReadRopeConfig(const json& text,
                                          const std::string& path,
                                          int head_dim) {
  JsonFields outer(text, path);
  const double outer_theta =
      outer.Number("rope_theta", kThetaRange, kDefaultTheta);
  const double outer_factor = outer.Number(
      "partial_rotary_factor", kRotaryFactorRange, kDefaultRotaryFactor);
  const char* inner_key =
      !outer.Has("rope_parameters") && outer.Has("rope_scaling")
          ? "rope_scaling"
          : "rope_parameters";
  const json* object = outer.Object(inner_key);
  BOLE_RETURN_IF_ERROR(outer.status());

  const json empty = json::object();
  JsonFields inner(object != nullptr ? *object : empty,
                   outer.PathOf(inner_key));
  RopeConfig rope;
  rope.theta = inner.Number("rope_theta", kThetaRange, outer_theta);
  const double factor =
      inner.Number("partial_rotary_factor", kRotaryFactorRange, outer_factor);
  rope.rotary_dim = static_cast<int>(head_dim * factor);
  if (rope.rotary_dim == 0 || rope.rotary_dim % 2 != 0) {
    inner.Fail(
        "partial_rotary_factor",
        absl::StrCat(factor, " rotates ", rope.rotary_dim, " of ", head_dim,
                     " dimensions, expected an even number >= 2"));
  }
  rope.yarn = ReadYarn(inner);
  BOLE_RETURN_IF_ERROR(inner.status());
  return rope;
}

std::vector<float> InverseFrequencies(const RopeConfig& rope) {
  const std::vector<double> ramp =
      rope.yarn ? YarnRamp(rope)
                : std::vector<double>(static_cast<size_t>(rope.rotary_dim / 2));
  const double factor = rope.yarn ? rope.yarn->factor : 1;
  std::vector<float> frequencies(ramp.size());
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / rope.rotary_dim;
    const double base = std::pow(rope.theta, -exponent);
    frequencies[i] =
        static_cast<float>(base * ((1 - ramp[i]) + ramp[i] / factor));
  }
  return frequencies;
}

float RotaryScale(const RopeConfig& rope) {
  if (!rope.yarn) return 1;
  return static_cast<float>(rope.yarn->attention_factor.value_or(
      0.1 * std::log(rope.yarn->factor) + 1));
}

}  // namespace bole
