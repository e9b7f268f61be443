#include "worker_service/eval/count_text.h"

#include <algorithm>
#include <numeric>

#include "absl/status/statusor.h"
#include "common/status_macros.h"

namespace bole {
namespace {

constexpr size_t kPieceBytes = 1 << 18;

// The length of the next piece, which ends with its last line break, if any.
size_t PieceLength(std::string_view text) {
  if (text.size() <= kPieceBytes) return text.size();
  const size_t line = text.substr(0, kPieceBytes).rfind('\n');
  return line == std::string_view::npos ? kPieceBytes : line + 1;
}

}  // namespace

absl::Status CountText(const Tokenizer& tokenizer, std::string_view text,
                       std::vector<int64_t>& count,
                       const std::function<void(size_t)>& on_piece) {
  while (!text.empty()) {
    const size_t length = PieceLength(text);
    BOLE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                          tokenizer.Encode(text.substr(0, length),
                                           {.parse_special_tokens = false}));
    for (const int32_t id : ids) ++count[id];
    text.remove_prefix(length);
    on_piece(length);
  }
  return absl::OkStatus();
}

ChosenTokens ChooseTokens(const std::vector<int64_t>& count,
                          const std::vector<int32_t>& required, int size) {
  std::vector<bool> is_required(count.size());
  for (const int32_t id : required) is_required[id] = true;
  std::vector<int32_t> order(count.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    if (is_required[a] != is_required[b]) return bool{is_required[a]};
    return count[a] > count[b];
  });
  const auto num_required = static_cast<size_t>(
      std::count(is_required.begin(), is_required.end(), true));
  const size_t kept =
      std::min(order.size(), std::max(num_required, static_cast<size_t>(size)));
  order.resize(kept);
  std::sort(order.begin(), order.end());

  ChosenTokens chosen;
  int64_t covered = 0;
  for (const int32_t id : order) covered += count[id];
  const int64_t all = std::accumulate(count.begin(), count.end(), int64_t{0});
  chosen.tokens = std::move(order);
  if (all > 0) {
    chosen.coverage = static_cast<double>(covered) / static_cast<double>(all);
  }
  return chosen;
}

}  // namespace bole
