// The linear layers' definition in double, written apart from the operators
// under test, and bounds on what float32 may differ from it.
#ifndef BOLE_TESTS_KERNELS_GDN_ORACLE_H_
#define BOLE_TESTS_KERNELS_GDN_ORACLE_H_

#include <cstddef>
#include <span>
#include <vector>

#include "tests/kernels/gdn_problem.h"

namespace bole::testing {

// One value head of the rows of one request, in double.
struct HeadProblem {
  int num_rows = 0;               // T
  int key_dim = 0;                // dk
  int value_dim = 0;              // dv
  Parents parents;                // [T]
  std::vector<double> q;          // [T, dk] scaled.
  std::vector<double> k;          // [T, dk] normalised.
  std::vector<double> v;          // [T, dv]
  std::vector<double> beta;       // [T]
  std::vector<double> log_decay;  // [T]
  std::vector<double> state;      // [dv, dk]; zero where nothing is committed.
};
HeadProblem ExtractHead(const GdnProblem& problem, int layer, int request,
                        int head);

// Eq. 1 node by node, each from its parent's state.
struct HeadSolution {
  std::vector<double> o;       // [T, dv]
  std::vector<double> u;       // [T, dv]
  std::vector<double> states;  // [T, dv, dk] after each node.
};
HeadSolution RunRecurrence(const HeadProblem& head);

// How far float32 may be from the recurrence, element by element [T, dv], in
// units of the roundoff: what the equations give when every number is replaced
// by its magnitude and every exp(x) by exp(x) (1 + |x|), since a rounded x
// costs |x| roundoffs. Each rounding counts once, at the full size of its sum.
class ErrorAnalysis {
 public:
  // `head` must outlive the object.
  explicit ErrorAnalysis(const HeadProblem& head);

  const HeadSolution& exact() const { return exact_; }

  std::vector<double> Blocks() const;
  std::vector<double> Neumann() const;
  std::vector<double> Serial() const;

 private:
  size_t Index(int i, int c) const {
    return static_cast<size_t>(i) * h_.value_dim + c;
  }
  const double* StateRow(int node, int c) const;
  void BuildRow(int i);
  void BuildInverseRow(int i);
  std::vector<double> Times(const std::vector<double>& m,
                            const std::vector<double>& x) const;
  std::vector<double> ExactRightSide() const;
  std::vector<double> RightSide(const std::vector<double>& u) const;
  std::vector<double> Outputs(const std::vector<double>& du,
                              const std::vector<double>& u) const;

  // Matrices [T, T] are zero off the ancestors.
  const HeadProblem& h_;
  HeadSolution exact_;
  std::vector<double> path_decay_;   // [T] Gamma
  std::vector<double> g_, g_error_;  // G, and for |dG|.
  std::vector<double> c_, c_error_;  // |C|, and for |dC|.
  std::vector<double> inverse_;      // X = (I + G)^-1
  std::vector<double> inverse_magnitude_;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_GDN_ORACLE_H_
