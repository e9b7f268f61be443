// Locates the operands of linear layers in the flat buffers of kernels/gdn.h.
#ifndef BOLE_KERNELS_CUDA_GDN_GDN_VIEWS_CUH_
#define BOLE_KERNELS_CUDA_GDN_GDN_VIEWS_CUH_

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// The key head that value head `head` reads.
__device__ inline int KeyHead(const GdnShape& shape, int head) {
  return head / (shape.value_heads / shape.key_heads);
}

// One layer of GdnFactors, row by row.
template <typename T>
class FactorRows {
 public:
  __device__ FactorRows(const GdnShape& shape, const GdnFactors& factors,
                        int layer)
      : shape_(shape),
        factors_(factors),
        first_(static_cast<int64_t>(layer) * factors.layer_rows) {}

  // [conv_width]
  __device__ T* raw(int row) const {
    return As<T>(factors_.raw) + (first_ + row) * shape_.conv_width();
  }
  // [key_dim], not normalised.
  __device__ T* k(int row, int key_head) const {
    return As<T>(factors_.k) + KeyIndex(row, key_head) * shape_.key_dim;
  }
  // [value_dim]
  __device__ T* v(int row, int head) const {
    return As<T>(factors_.v) + ValueIndex(row, head) * shape_.value_dim;
  }
  __device__ float& k_scale(int row, int key_head) const {
    return factors_.k_scale[KeyIndex(row, key_head)];
  }
  __device__ float& beta(int row, int head) const {
    return factors_.beta[ValueIndex(row, head)];
  }
  __device__ float& log_decay(int row, int head) const {
    return factors_.log_decay[ValueIndex(row, head)];
  }

 private:
  __device__ int64_t KeyIndex(int row, int key_head) const {
    return (first_ + row) * shape_.key_heads + key_head;
  }
  __device__ int64_t ValueIndex(int row, int head) const {
    return (first_ + row) * shape_.value_heads + head;
  }

  const GdnShape& shape_;
  const GdnFactors& factors_;
  const int64_t first_;  // Row where the layer starts.
};

// One head's state [value_dim, key_dim].
__device__ inline float* HeadState(const GdnShape& shape,
                                   const GdnStates& states, int slot, int layer,
                                   int head) {
  const int64_t slot_layer =
      static_cast<int64_t>(slot) * states.num_layers + layer;
  return states.state + (slot_layer * shape.value_heads + head) *
                            shape.value_dim * shape.key_dim;
}

// One head's state after a row [value_dim, key_dim]; factors.node_states is
// set.
__device__ inline float* NodeState(const GdnShape& shape,
                                   const GdnFactors& factors, int layer,
                                   int row, int head) {
  const int64_t layer_row =
      static_cast<int64_t>(layer) * factors.layer_rows + row;
  return factors.node_states + (layer_row * shape.value_heads + head) *
                                   shape.value_dim * shape.key_dim;
}

// A slot's window of one layer [conv_taps, conv_width].
template <typename T>
__device__ T* SlotWindow(const GdnShape& shape, const GdnStates& states,
                         int slot, int layer) {
  const int64_t slot_layer =
      static_cast<int64_t>(slot) * states.num_layers + layer;
  return As<T>(states.window) +
         slot_layer * shape.conv_taps * shape.conv_width();
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_GDN_GDN_VIEWS_CUH_
