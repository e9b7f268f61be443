#include "kernels/reference/store_hidden.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/reference/activations.h"

namespace bole::reference {

void StoreHidden(const StoreHiddenParams& p) {
  const auto width = static_cast<size_t>(p.width);
  for (int b = 0; b < p.batch.max_requests; ++b) {
    const int32_t first = p.path.first[b];
    const int32_t end = p.path.first[b + 1];
    for (int32_t i = std::max(first, end - p.most); i < end; ++i) {
      const int32_t position = p.batch.committed[b] + (i - first);
      const size_t place =
          static_cast<size_t>(p.batch.slot[b]) * p.ring + position % p.ring;
      std::copy_n(Floats(p.hidden) + p.path.row[i] * width, width,
                  Floats(p.kept) + place * width);
    }
  }
}

}  // namespace bole::reference
