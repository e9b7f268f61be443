// Views of the linear layers' operands in the flat buffers of kernels/gdn.h, on
// the backend whose activations are floats.
#ifndef BOLE_KERNELS_REFERENCE_GDN_VIEWS_H_
#define BOLE_KERNELS_REFERENCE_GDN_VIEWS_H_

#include <cstddef>

#include "kernels/gdn.h"
#include "kernels/reference/activations.h"

namespace bole::reference {

// The key head that value head `head` reads.
inline int KeyHead(const GdnShape& shape, int head) {
  return head / (shape.value_heads / shape.key_heads);
}

// One layer of GdnFactors, row by row. Does not own the memory.
class GdnFactorRows {
 public:
  GdnFactorRows(const GdnShape& shape, const GdnFactors& factors, int layer)
      : shape_(shape),
        factors_(factors),
        first_(static_cast<size_t>(layer) * factors.layer_rows) {}

  const GdnShape& shape() const { return shape_; }

  // [conv_width]
  float* raw(int row) const {
    return Floats(factors_.raw) + (first_ + row) * shape_.conv_width();
  }
  // [key_dim], not normalised.
  float* k(int row, int key_head) const {
    return Floats(factors_.k) + KeyIndex(row, key_head) * shape_.key_dim;
  }
  // [value_dim]
  float* v(int row, int head) const {
    return Floats(factors_.v) + ValueIndex(row, head) * shape_.value_dim;
  }
  float& k_scale(int row, int key_head) const {
    return factors_.k_scale[KeyIndex(row, key_head)];
  }
  float& beta(int row, int head) const {
    return factors_.beta[ValueIndex(row, head)];
  }
  float& log_decay(int row, int head) const {
    return factors_.log_decay[ValueIndex(row, head)];
  }

 private:
  size_t KeyIndex(int row, int key_head) const {
    return (first_ + row) * shape_.key_heads + key_head;
  }
  size_t ValueIndex(int row, int head) const {
    return (first_ + row) * shape_.value_heads + head;
  }

  GdnShape shape_;
  GdnFactors factors_;
  size_t first_;  // Row where the layer starts.
};

// One head's state [value_dim, key_dim].
inline float* HeadState(const GdnShape& shape, const GdnStates& states,
                        int slot, int layer, int head) {
  const size_t slot_layer =
      static_cast<size_t>(slot) * states.num_layers + layer;
  return states.state + (slot_layer * shape.value_heads + head) *
                            shape.value_dim * shape.key_dim;
}

// One head's state after a row [value_dim, key_dim]; factors.node_states is
// set.
inline float* NodeState(const GdnShape& shape, const GdnFactors& factors,
                        int layer, int row, int head) {
  const size_t layer_row =
      static_cast<size_t>(layer) * factors.layer_rows + row;
  return factors.node_states + (layer_row * shape.value_heads + head) *
                                   shape.value_dim * shape.key_dim;
}

// A slot's window of one layer [conv_taps, conv_width].
inline float* SlotWindow(const GdnShape& shape, const GdnStates& states,
                         int slot, int layer) {
  const size_t slot_layer =
      static_cast<size_t>(slot) * states.num_layers + layer;
  return Floats(states.window) +
         slot_layer * shape.conv_taps * shape.conv_width();
}

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_GDN_VIEWS_H_
