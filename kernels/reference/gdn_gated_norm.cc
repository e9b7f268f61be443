#include "kernels/reference/gdn_gated_norm.h"

#include <cmath>
#include <cstddef>

#include "kernels/reference/activations.h"
#include "kernels/reference/vector_ops.h"

namespace bole::reference {

void GdnGatedNorm(const GdnGatedNormParams& p, ThreadPool& pool) {
  const int dim = p.shape.value_dim;
  pool.ParallelFor(*p.rows.count, [&](int row) {
    const float* z = Floats(p.projected) +
                     static_cast<size_t>(row) * p.shape.projected_width() +
                     p.shape.z_column();
    for (int head = 0; head < p.shape.value_heads; ++head) {
      const size_t first =
          (static_cast<size_t>(row) * p.shape.value_heads + head) * dim;
      const float* o = Floats(p.o) + first;
      const float* gate = z + static_cast<size_t>(head) * dim;
      float* out = Floats(p.out) + first;
      const float mean = Dot(o, o, dim) / static_cast<float>(dim);
      const float scale = 1 / std::sqrt(mean + p.epsilon);
      for (int c = 0; c < dim; ++c) {
        out[c] = o[c] * scale * p.weight[c] * Silu(gate[c]);
      }
    }
  });
}

}  // namespace bole::reference
