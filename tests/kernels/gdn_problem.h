// Random inputs of the linear-attention operators, on the host.
#ifndef BOLE_TESTS_KERNELS_GDN_PROBLEM_H_
#define BOLE_TESTS_KERNELS_GDN_PROBLEM_H_

#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "kernels/gdn.h"
#include "tests/testing/activations.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/random_forest.h"

namespace bole::testing {

// How fast the state forgets: -g of a row.
enum class Decay {
  kMild,     // To 0.1.
  kMixed,    // To 8.
  kExtreme,  // To 0.1, but one row in six 80 and one in six 10^4.
};

struct GdnProblemOptions {
  GdnShape shape;
  int num_layers = 1;
  int spare_slots = 2;
  Decay decay = Decay::kMixed;
  float key_correlation = 0;  // rho: k_i k_j is about rho.
};

// Everything that the operators of linear attention read and write, owned.
//
// Slots are shuffled. What no request owns is NaN: spare slots, spare rows, and
// the slots of requests that have nothing committed. Copies are independent.
struct GdnProblem {
  // Takes slots and committed counts from the batch, and fills in every array.
  GdnProblem(std::mt19937& rng, const GdnProblemOptions& options,
             HostBatch host_batch);

  GdnStates States();
  GdnFactors Factors();
  GdnCoreParams Core(int layer, TreeSolver solver = TreeSolver::kBlocks);

  // The core over `piece`, a batch of its own whose row 0 is row first_row of
  // this problem: the same operands, cut differently. `piece` must outlive it.
  GdnCoreParams CoreOfRows(int layer, int first_row, const HostBatch& piece);

  // Where row `row` of `layer` is in the factors, in rows of all channels, of
  // one key head and of one value head.
  size_t RawRow(int layer, int row) const {
    return static_cast<size_t>(layer) * batch.max_rows() + row;
  }
  size_t KeyRow(int layer, int row, int key_head) const {
    return RawRow(layer, row) * shape.key_heads + key_head;
  }
  size_t ValueRow(int layer, int row, int head) const {
    return RawRow(layer, row) * shape.value_heads + head;
  }
  int KeyHeadOf(int head) const {
    return head / (shape.value_heads / shape.key_heads);
  }

  // [dv, dk]
  std::span<float> HeadState(int request, int layer, int head);
  std::span<const float> HeadState(int request, int layer, int head) const;
  // [taps, C]
  std::span<float> Window(int request, int layer);
  // [dv] of the output of a row.
  std::span<const float> Out(int row, int head) const;
  // The same of rows first .. end - 1, one after the other.
  std::vector<float> Outs(int first, int end, int head) const;

  // From now on Factors() has node_states.
  void KeepNodeStates();

  bool GuardsIntact() const;

  GdnShape shape;
  int num_layers;
  int num_slots;
  HostBatch batch;
  GuardedBuffer<float> state, window;
  GuardedBuffer<float> raw, k, v, k_scale, beta, log_decay;  // [L, N, ...]
  GuardedBuffer<float> q, q_scale, out;                      // [N, ...]
  GuardedBuffer<float> node_states;  // [L, N, Hv, dv, dk] or empty.
};

// Gives every request one of num_slots slots, in random order, and 1 .. 1000
// committed tokens.
void CommitSomething(std::mt19937& rng, int num_slots, HostBatch& batch);

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_GDN_PROBLEM_H_
