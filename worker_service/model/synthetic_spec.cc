#include "worker_service/model/synthetic_spec.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {
namespace {

constexpr std::string_view kPrefix = "synthetic:";

// The whole of `text` as a number in [min, max].
template <typename T>
absl::StatusOr<T> Number(std::string_view key, std::string_view text, T min,
                         T max) {
  T value = {};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end && value >= min && value <= max) {
    return value;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(key), " is \"", std::string(text),
                   "\", expected a number of ", min, " .. ", max));
}

absl::Status SetOption(std::string_view key, std::string_view value,
                       SyntheticSpec& spec) {
  if (key == "seed") {
    BOLE_ASSIGN_OR_RETURN(
        spec.seed,
        Number<uint64_t>(key, value, 0, std::numeric_limits<uint64_t>::max()));
  } else if (key == "entropy") {
    BOLE_ASSIGN_OR_RETURN(spec.entropy,
                          Number<double>(key, value, kMinEntropy, kMaxEntropy));
  } else if (key == "accept") {
    BOLE_ASSIGN_OR_RETURN(
        spec.accept,
        Number<double>(key, value, 1,
                       SyntheticSpec::kCalibrationTree.shape.depth + 1));
  } else if (key == "noise") {
    BOLE_ASSIGN_OR_RETURN(spec.noise,
                          Number<double>(key, value, 0, kMaxDraftNoise));
  } else if (key == "layers") {
    BOLE_ASSIGN_OR_RETURN(spec.layers, Number<int>(key, value, 1, 1024));
  } else if (key == "tokens") {
    BOLE_ASSIGN_OR_RETURN(spec.tokens, Number<int>(key, value, 64, 1 << 20));
    if (spec.tokens % kSuccessors != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tokens is ", spec.tokens, ", expected a multiple of ", kSuccessors));
    }
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no option \"", std::string(key),
        "\", only seed, entropy, accept, noise, layers and tokens"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SyntheticSpec> Parse(std::string_view rest) {
  SyntheticSpec spec;
  const size_t comma = rest.find(',');
  spec.size = std::string(rest.substr(0, comma));
  if (spec.size.empty()) return absl::InvalidArgumentError("no size is named");
  rest.remove_prefix(comma == rest.npos ? rest.size() : comma + 1);
  while (!rest.empty()) {
    const std::string_view option = rest.substr(0, rest.find(','));
    const size_t equals = option.find('=');
    if (equals == option.npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", std::string(option), "\" is not of the form OPTION=VALUE"));
    }
    BOLE_RETURN_IF_ERROR(
        SetOption(option.substr(0, equals), option.substr(equals + 1), spec));
    rest.remove_prefix(std::min(rest.size(), option.size() + 1));
  }
  return spec;
}

}  // namespace

bool IsSynthetic(std::string_view model) { return model.starts_with(kPrefix); }

absl::StatusOr<SyntheticSpec> ParseSyntheticSpec(std::string_view model) {
  absl::StatusOr<SyntheticSpec> spec = Parse(model.substr(kPrefix.size()));
  if (spec.ok()) return spec;
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(model), ": ", std::string(spec.status().message())));
}

}  // namespace bole
