#include "scheduler_service/policy/shared_prefills.h"

#include <algorithm>
#include <cmath>

#include "common/step.h"

namespace bole {

void SharedPrefills::Shared(int64_t chunk_tokens) {
  chunks_ += 1;
  chunk_tokens_ += static_cast<double>(chunk_tokens);
}

void SharedPrefills::Emitted(double tokens) {
  constexpr double kKept = 0.997;  // Share of the evidence kept per round.
  chunks_ *= kKept;
  chunk_tokens_ *= kKept;
  tokens_ = kKept * tokens_ + tokens;
}

int SharedPrefills::chunk_tokens() const {
  if (chunks_ < 0.1) return 0;
  const double grids = chunk_tokens_ / chunks_ / kPrefillGrid;
  return std::max(static_cast<int>(std::lround(grids)), 1) * kPrefillGrid;
}

}  // namespace bole
