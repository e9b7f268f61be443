// The closed form of a forest's linear attention (Eq. 2, 5 and 10) for one head
// of one request. A chain is a tree without branches, so prefill uses it too.
#ifndef BOLE_KERNELS_REFERENCE_GDN_CLOSED_FORM_H_
#define BOLE_KERNELS_REFERENCE_GDN_CLOSED_FORM_H_

#include <cstddef>
#include <vector>

#include "kernels/gdn.h"
#include "kernels/reference/gdn_views.h"

namespace bole::reference {

// Rows of one request with consecutive nodes.
struct RowRange {
  int first;
  int count;  // T
};

// Works on one range at a time, key head by key head, and holds the scratch
// for it. Not thread-safe: one object per thread.
//
// Row i of the range is node i of a tree; with batch.mask_words 0 the range may
// be any part of a chain, and row i follows row i - 1.
class ClosedForm {
 public:
  // Loads the range's keys and queries of one key head, which the value heads
  // that read it share. `params` must outlive the calls below.
  void LoadKeyHead(const GdnCoreParams& params, RowRange range, int key_head);

  // Writes params.out of one value head, given its state before the range,
  // [value_dim, key_dim]; null stands for zero.
  void Solve(int head, const float* state, TreeSolver solver);

  // After Solve for the same head on a chain: moves the state to the end of the
  // range (Eq. 10). Does not read it if `from_zero`.
  void AdvanceChain(bool from_zero, float* state);

 private:
  void MultiplyState(const float* state);
  void SumLogDecays(const GdnFactorRows& factors, int head);
  void BuildFactors(const GdnFactorRows& factors, int head);
  void BuildRightSide(const GdnFactorRows& factors, int head);
  void WriteOutput(int head);
  int Parent(int i) const;
  int MaxDepth() const;

  const GdnCoreParams* params_ = nullptr;
  RowRange range_ = {};
  size_t row_ = 0;  // 2 T, padded to whole vectors.

  std::vector<float> x_;             // [2T, dk] keys, then queries, scaled.
  std::vector<float> transposed_x_;  // [dk, row_]
  std::vector<float> gram_;          // [2T, row_] x k^T; T columns are used.
  std::vector<float> state_x_;       // [dv, row_] S x^T
  std::vector<double> log_decay_;    // [T] Gamma: sums from the root.
  std::vector<float> g_and_c_;       // [2T, T] -G, then C.
  std::vector<float> u_;             // [T, dv] R, then U.
  std::vector<float> o_;             // [T, dv]
  std::vector<float> scratch_;
};

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_GDN_CLOSED_FORM_H_
