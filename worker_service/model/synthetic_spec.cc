#include "worker_service/model/synthetic_spec.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace bole {
namespace {

constexpr std::string_view kPrefix = "synthetic:";

// Parses all of `text` as a number in [min, max].
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

// Parses TOPKxDEPTHxNODES.
absl::StatusOr<VerifiedTree> Tree(std::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), 'x');
  if (parts.size() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("tree is \"", std::string(text),
                     "\", expected TOPKxDEPTHxNODES such as 4x8x64"));
  }
  VerifiedTree tree;
  BOLE_ASSIGN_OR_RETURN(tree.shape.top_k, Number<int>("tree's top-k", parts[0],
                                                      1, kMaxDraftTopK));
  BOLE_ASSIGN_OR_RETURN(tree.shape.depth, Number<int>("tree's depth", parts[1],
                                                      1, kMaxDraftDepth));
  BOLE_ASSIGN_OR_RETURN(tree.nodes,
                        Number<int>("tree's nodes", parts[2], 1, 128));
  return tree;
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
    BOLE_ASSIGN_OR_RETURN(spec.accept,
                          Number<double>(key, value, 1, kMaxDraftDepth + 1));
  } else if (key == "tree") {
    BOLE_ASSIGN_OR_RETURN(spec.tree, Tree(value));
  } else if (key == "spread") {
    BOLE_ASSIGN_OR_RETURN(spec.spread,
                          Number<double>(key, value, 0, kMaxSpread));
  } else if (key == "outside") {
    BOLE_ASSIGN_OR_RETURN(spec.outside, Number<double>(key, value, 0, 0.5));
  } else if (key == "noise") {
    BOLE_ASSIGN_OR_RETURN(spec.noise,
                          Number<double>(key, value, 0, kMaxDraftNoise));
  } else if (key == "layers") {
    BOLE_ASSIGN_OR_RETURN(spec.layers, Number<int>(key, value, 1, 1024));
  } else if (key == "tokens") {
    BOLE_ASSIGN_OR_RETURN(spec.tokens,
                          Number<int>(key, value, kStretchTokens, 1 << 20));
    if (spec.tokens % kStretchTokens != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokens is ", spec.tokens, ", expected a multiple of ",
                       kStretchTokens));
    }
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no option \"", std::string(key),
        "\", only seed, entropy, accept, tree, spread, noise, layers, tokens "
        "and outside"));
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
  const int most = spec.tree.shape.depth + 1;
  if (!spec.noise && spec.accept > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "accept is ", spec.accept, ", expected at most ", most,
        ", which are all of a tree of depth ", spec.tree.shape.depth));
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
