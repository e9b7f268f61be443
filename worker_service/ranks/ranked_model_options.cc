#include "worker_service/ranks/ranked_model_options.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker_service/loading/default_threads.h"

namespace bole {
namespace {

// The part of the encoded options that has a fixed size; the name and the
// device follow it.
struct Fixed {
  size_t name_bytes;
  size_t device_bytes;
  CollectivesKind collectives;
  int num_threads;
  int num_ranks;
  DraftHead draft_head;
  DraftWeights draft_weights;
  EngineOptions engine;
  double memory_fraction;
  std::chrono::seconds warm_up;
};
static_assert(std::is_trivially_copyable_v<Fixed>);

}  // namespace

int RankedModelOptions::ThreadsOfRank() const {
  return std::max(1, ThreadsOrDefault(num_threads) / num_ranks);
}

std::vector<std::byte> EncodeRankOptions(const RankedModelOptions& options) {
  const Fixed fixed{.name_bytes = options.name.size(),
                    .device_bytes = options.device.size(),
                    .collectives = options.collectives,
                    .num_threads = options.num_threads,
                    .num_ranks = options.num_ranks,
                    .draft_head = options.draft_head,
                    .draft_weights = options.draft_weights,
                    .engine = options.engine,
                    .memory_fraction = options.memory_fraction,
                    .warm_up = options.warm_up};
  std::vector<std::byte> bytes;
  for (const std::span<const std::byte> part :
       {std::as_bytes(std::span(&fixed, 1)),
        std::as_bytes(std::span(options.name)),
        std::as_bytes(std::span(options.device))}) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

absl::StatusOr<RankedModelOptions> DecodeRankOptions(
    std::span<const std::byte> bytes) {
  Fixed fixed{};
  std::memcpy(&fixed, bytes.data(), std::min(sizeof(fixed), bytes.size()));
  if (bytes.size() < sizeof(fixed) ||
      bytes.size() != sizeof(fixed) + fixed.name_bytes + fixed.device_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes.size(),
                     " bytes are not the options of a rank: the ranks are "
                     "different programs"));
  }
  const auto* const texts =
      reinterpret_cast<const char*>(bytes.data()) + sizeof(fixed);
  return RankedModelOptions{
      .name = std::string(texts, fixed.name_bytes),
      .device = std::string(texts + fixed.name_bytes, fixed.device_bytes),
      .collectives = fixed.collectives,
      .num_threads = fixed.num_threads,
      .num_ranks = fixed.num_ranks,
      .draft_head = fixed.draft_head,
      .draft_weights = fixed.draft_weights,
      .engine = fixed.engine,
      .memory_fraction = fixed.memory_fraction,
      .warm_up = fixed.warm_up};
}

}  // namespace bole
