// The float32 loops that attention and the linear layers spend their time in,
// compiled for every instruction set and chosen at run time.
//
// Every result has one accumulation order, fixed by the sizes alone: the same
// machine gives the same bits on every thread and at every address. Thread-safe
// as far as outputs do not overlap.
#ifndef BOLE_KERNELS_REFERENCE_VECTOR_OPS_H_
#define BOLE_KERNELS_REFERENCE_VECTOR_OPS_H_

#include <cstddef>

namespace bole::reference {

// The sum of a[i] * b[i], i < n.
float Dot(const float* a, const float* b, int n);

// out[i] = Dot(a, row i of b, n), for `count` rows of b, one after the other.
void DotRows(const float* a, const float* b, int count, int n, float* out);

// y += alpha * x, n elements; x may be y.
void Axpy(float alpha, const float* x, float* y, int n);

// x *= alpha, n elements.
void Scale(float alpha, float* x, int n);

// c += a b, with a [rows, depth], b [depth, columns] and c [rows, columns].
//
// Element (i, j) is one chain of multiply-adds over the depth in order, started
// from c: its bits depend on row i of a and column j of b alone, not on the
// rows and columns computed with it.
struct ProductSum {
  int rows;
  int columns;
  int depth;
  const float* a;  // Element (i, k) is at i * a_row + k * a_depth, so that the
  size_t a_row;    // transpose of a stored matrix serves as well.
  size_t a_depth;
  const float* b;  // Element (k, j) is at k * b_row + j.
  size_t b_row;
  float* c;  // Element (i, j) is at i * c_row + j; overlaps neither a nor b.
  size_t c_row;
};
void AddProduct(const ProductSum& product);

// One step of the gated delta rule (Eq. 1) on the state of one head:
//   S <- decay S;  u = beta (v - S k);  S <- S + u k^T;  out = S q
struct StateStep {
  int key_dim;
  int value_dim;
  float decay;  // exp(g)
  float beta;
  const float* k;  // [key_dim] normalised.
  const float* v;  // [value_dim]
  const float* q;  // [key_dim] scaled; null: no output.
  float* out;      // [value_dim], written if q is set.
};
// Advances `state` [value_dim, key_dim] in place. Its new bits do not depend on
// whether q is set.
void AdvanceState(const StateStep& step, float* state);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_VECTOR_OPS_H_
