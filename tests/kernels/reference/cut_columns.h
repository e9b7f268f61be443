// The columns of logits that one of several ranks has.
#ifndef BOLE_TESTS_KERNELS_REFERENCE_CUT_COLUMNS_H_
#define BOLE_TESTS_KERNELS_REFERENCE_CUT_COLUMNS_H_

#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace bole::testing {

// cut: how many columns each rank has. logits: rows of all of them.
inline std::vector<float> ColumnsOf(int rank, const std::vector<int>& cut,
                                    std::span<const float> logits) {
  const auto width =
      static_cast<size_t>(std::accumulate(cut.begin(), cut.end(), 0));
  const int first = std::accumulate(cut.begin(), cut.begin() + rank, 0);
  std::vector<float> part;
  for (size_t row = 0; row < logits.size(); row += width) {
    const auto from = logits.begin() + static_cast<std::ptrdiff_t>(row) + first;
    part.insert(part.end(), from, from + cut[rank]);
  }
  return part;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_REFERENCE_CUT_COLUMNS_H_
