// What attention reads and writes, on the GPU.
#ifndef BOLE_TESTS_KERNELS_CUDA_ATTENTION_DEVICE_PAGES_H_
#define BOLE_TESTS_KERNELS_CUDA_ATTENTION_DEVICE_PAGES_H_

#include <ostream>
#include <vector>

#include "kernels/attention.h"
#include "tests/kernels/attention_problem.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/qkv_problem.h"

namespace bole::testing {

inline KvPages DevicePages(DeviceCopies& copies, AttentionProblem& p) {
  KvPages pages = p.Pages();
  pages.k = copies.Activations(p.k);
  pages.v = copies.Activations(p.v);
  return pages;
}

inline QkvParams DeviceQkv(DeviceCopies& copies, QkvProblem& qkv, int layer) {
  QkvParams params = qkv.Params(layer);
  params.batch = copies.Of(qkv.p.batch);
  params.pages = DevicePages(copies, qkv.p);
  params.projected = copies.Activations(qkv.p.projected);
  params.q_norm = copies.Of(qkv.q_norm);
  params.k_norm = copies.Of(qkv.k_norm);
  params.inverse_frequency = copies.Of(qkv.inverse_frequency);
  params.q = copies.Activations(qkv.p.q);
  return params;
}

// The heads of released models, and shapes at the edges of what a warp, a lane
// or a copy holds at once.
inline std::vector<AttentionShape> NotedShapes() {
  const auto shape = [](int group, int kv_heads, int head_dim, int rotary_dim) {
    return AttentionShape{.query_heads = group * kv_heads,
                          .kv_heads = kv_heads,
                          .head_dim = head_dim,
                          .rotary_dim = rotary_dim};
  };
  return {shape(1, 1, 1, 0),    shape(1, 3, 64, 64),  shape(2, 2, 65, 64),
          shape(3, 1, 128, 32), shape(5, 2, 129, 66), shape(4, 4, 256, 64),
          shape(6, 4, 256, 64), shape(8, 2, 256, 64), shape(16, 2, 256, 64),
          shape(11, 1, 34, 2),  shape(1, 2, 255, 254)};
}

inline std::ostream& operator<<(std::ostream& out, const AttentionProblem& p) {
  return out << p.shape.query_heads << " query heads, " << p.shape.kv_heads
             << " KV heads of " << p.shape.head_dim << ", "
             << p.shape.rotary_dim << " rotated, pages of " << p.page_size;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_CUDA_ATTENTION_DEVICE_PAGES_H_
