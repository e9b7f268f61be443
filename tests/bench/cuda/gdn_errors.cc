#include "tests/bench/cuda/gdn_errors.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/status_macros.h"
#include "kernels/gdn.h"
#include "nlohmann/json.hpp"
#include "tests/bench/cuda/draft_trees.h"
#include "tests/bench/cuda/gdn_layers.h"
#include "tests/kernels/gdn_oracle.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "worker_service/model/device_arrays.h"

namespace bole::cuda {
namespace {

using ::bole::testing::Decay;
using ::bole::testing::GdnProblem;
using ::bole::testing::GuardedBuffer;
using ::bole::testing::HeadSolution;

constexpr int kDim = 128;
constexpr int kKeyHeads = 2;
constexpr int kValueHeads = 4;

uint16_t Narrow(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
float Rounded(float x) {
  const uint32_t bits = static_cast<uint32_t>(Narrow(x)) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

struct Case {
  const char* name;
  int num_nodes;
  int max_depth;
  float correlation;
  Decay decay;
};

constexpr Case kCases[] = {
    {"random keys, depth 8", 64, 8, 0, Decay::kMild},
    {"random keys, depth 16", 128, 16, 0, Decay::kMild},
    {"correlated keys, depth 8", 64, 8, 0.9f, Decay::kMild},
    {"correlated keys, depth 16", 64, 16, 0.9f, Decay::kMild},
    {"decays to e^-8", 64, 8, 0, Decay::kMixed},
    {"decays to e^-10000", 64, 8, 0, Decay::kExtreme},
};

GdnProblem MakeProblem(std::mt19937& rng, const Case& c,
                       const testing::Parents& tree) {
  testing::HostBatch batch =
      testing::PackTrees(std::vector<testing::Parents>{tree});
  batch.committed[0] = 1000;
  GdnProblem p(rng,
               {.shape = {.key_heads = kKeyHeads,
                          .value_heads = kValueHeads,
                          .key_dim = kDim,
                          .value_dim = kDim,
                          .conv_taps = 4},
                .spare_slots = 0,
                .decay = c.decay,
                .key_correlation = c.correlation},
               std::move(batch));
  for (auto* buffer : {&p.q, &p.k, &p.v}) {
    for (size_t i = 0; i < buffer->size(); ++i) {
      (*buffer)[i] = Rounded((*buffer)[i]);
    }
  }
  return p;
}

testing::Parents TreeOf(std::mt19937& rng, const Case& c, int num_nodes) {
  return DraftTree(
      rng, {.num_nodes = num_nodes, .max_depth = c.max_depth, .top_k = 4});
}

// A problem whose outputs are errors of U, of the first num_marked nodes of the
// tree. Behind them each has a child, the canceller, and that has one, the
// reader, neither of which decays. Keys lose their last dimensions to two marks
// for each node: k_i alone has mark i, its canceller alone mark T + i and
// nothing else, and the state has nothing at either. Readers write nothing and
// ask for both marks, all others for nothing, so that with k' for normalised
// keys
//   o_reader = (q k'_i) u_i + (q k'_canceller) v_canceller.
// The canceller's value takes away most of the first term: to the nearest that
// is exact in bfloat16. What is left is small, and its rounding to bfloat16
// does not hide the error of u_i.
struct MarkedProblem {
  GdnProblem problem;
  double norm;  // The rms of the first term.
};

class MarkedTree {
 public:
  MarkedTree(std::mt19937& rng, const Case& c, int num_marked)
      : count_(num_marked), p_(MakeProblem(rng, c, Extended(rng, c))) {
    for (int row = 0; row < p_.batch.num_rows(); ++row) SetRow(row);
    for (int head = 0; head < kValueHeads; ++head) {
      const std::span<float> state = p_.HeadState(0, 0, head);
      for (int c = 0; c < kDim; ++c) {
        for (int d = kDim - 2 * count_; d < kDim; ++d) state[c * kDim + d] = 0;
      }
      SetCancellers(head);
    }
  }

  MarkedProblem Take() && {
    const double norm = std::sqrt(sum_ / (kValueHeads * count_ * kDim));
    return {std::move(p_), norm};
  }

 private:
  testing::Parents Extended(std::mt19937& rng, const Case& c) const {
    testing::Parents tree = TreeOf(rng, c, count_);
    for (int i = 0; i < 2 * count_; ++i) tree.push_back(i);
    return tree;
  }
  int canceller(int i) const { return count_ + i; }
  int reader(int i) const { return 2 * count_ + i; }

  void SetRow(int row) {
    const int content = kDim - 2 * count_;
    const int i = row % count_;
    const bool is_reader = row >= 2 * count_;
    const bool is_node = row < count_;
    for (int head = 0; head < kKeyHeads; ++head) {
      const size_t key_row = p_.KeyRow(0, row, head);
      const std::span<float> k = p_.k.span(key_row * kDim, kDim);
      const std::span<float> q = p_.q.span(key_row * kDim, kDim);
      const int mark = content + i;
      const int other_mark = mark + count_;
      double norm = 1e-6;
      for (int d = 0; d < kDim; ++d) {
        if (d >= content || !is_node) k[d] = 0;
        if (d == (is_node ? mark : other_mark) && !is_reader) k[d] = 0.5f;
        q[d] = is_reader && (d == mark || d == other_mark) ? 1.0f : 0.0f;
        norm += static_cast<double>(k[d]) * k[d];
      }
      p_.k_scale[key_row] = static_cast<float>(1 / std::sqrt(norm));
      p_.q_scale[key_row] = 1;
    }
    if (is_node) return;
    for (int head = 0; head < kValueHeads; ++head) {
      const size_t value_row = p_.ValueRow(0, row, head);
      p_.log_decay[value_row] = 0;
      p_.beta[value_row] = is_reader ? 0.0f : 1.0f;
      for (int c = 0; c < kDim; ++c) p_.v[value_row * kDim + c] = 0;
    }
  }

  void SetCancellers(int head) {
    const HeadSolution exact = RunRecurrence(ExtractHead(p_, 0, 0, head));
    for (int i = 0; i < count_; ++i) {
      const int key_head = p_.KeyHeadOf(head);
      // q k' of the canceller.
      const double weight =
          0.5 * p_.k_scale[p_.KeyRow(0, canceller(i), key_head)];
      for (int c = 0; c < kDim; ++c) {
        const double o = exact.o[reader(i) * kDim + c];
        sum_ += o * o;
        p_.v[p_.ValueRow(0, canceller(i), head) * kDim + c] =
            Rounded(static_cast<float>(-o / weight));
      }
    }
  }

  int count_;
  double sum_ = 0;
  GdnProblem p_;
};

Activation* CopyActivations(const GuardedBuffer<float>& host,
                            DeviceArrays& arrays) {
  std::vector<uint16_t> narrow(host.size());
  for (size_t i = 0; i < host.size(); ++i) narrow[i] = Narrow(host[i]);
  return reinterpret_cast<Activation*>(
      const_cast<uint16_t*>(arrays.Copy(narrow, "operands")));
}
float* CopyFloats(const GuardedBuffer<float>& host, DeviceArrays& arrays) {
  const std::vector<float> values(host.data(), host.data() + host.size());
  return const_cast<float*>(arrays.Copy(values, "operands"));
}

// The rms difference of the outputs of the rows from `first` on and float64's,
// over the rms of those or over `norm` if there is one.
absl::StatusOr<double> OutputError(CudaBackend& backend, const GdnProblem& p,
                                   TreeSolver solver, int first, double norm) {
  DeviceArrays arrays(backend);
  GdnCoreParams params = {
      .batch = CopyBatch(p.batch, arrays),
      .shape = p.shape,
      .states = {.state = CopyFloats(p.state, arrays),
                 .window = nullptr,
                 .num_slots = p.num_slots,
                 .num_layers = 1},
      .layer = 0,
      .q = CopyActivations(p.q, arrays),
      .q_scale = CopyFloats(p.q_scale, arrays),
      .factors = {.raw = nullptr,
                  .k = CopyActivations(p.k, arrays),
                  .v = CopyActivations(p.v, arrays),
                  .k_scale = CopyFloats(p.k_scale, arrays),
                  .beta = CopyFloats(p.beta, arrays),
                  .log_decay = CopyFloats(p.log_decay, arrays),
                  .layer_rows = p.batch.max_rows()},
      .solver = solver,
      .out = CopyActivations(p.out, arrays)};
  BOLE_RETURN_IF_ERROR(arrays.status());
  BOLE_RETURN_IF_ERROR(backend.GdnVerify(params));
  std::vector<float> out(p.out.size());
  BOLE_RETURN_IF_ERROR(backend.DownloadActivations(out, params.out));
  double error = 0;
  double total = 0;
  for (int head = 0; head < kValueHeads; ++head) {
    const HeadSolution exact = RunRecurrence(ExtractHead(p, 0, 0, head));
    for (int i = first; i < p.batch.num_rows(); ++i) {
      for (int c = 0; c < kDim; ++c) {
        const double want = exact.o[i * kDim + c];
        const double got = out[p.ValueRow(0, i, head) * kDim + c];
        error += (got - want) * (got - want);
        total += want * want;
      }
    }
  }
  const double count =
      static_cast<double>(p.batch.num_rows() - first) * kValueHeads * kDim;
  return std::sqrt(error / count) /
         (norm > 0 ? norm : std::sqrt(total / count));
}

}  // namespace

absl::StatusOr<nlohmann::ordered_json> MeasureErrors(CudaBackend& backend) {
  // Two marks for each node leave the keys 64 dimensions.
  constexpr int kMarkedNodes = 32;
  constexpr std::pair<const char*, TreeSolver> kSolvers[] = {
      {"blocks", TreeSolver::kBlocks},
      {"neumann", TreeSolver::kNeumann},
      {"serial", TreeSolver::kSerial}};
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::mt19937 rng(1);
  std::printf("rms error of outputs, and of the correction U\n");
  for (const Case& c : kCases) {
    const GdnProblem whole = MakeProblem(rng, c, TreeOf(rng, c, c.num_nodes));
    const MarkedProblem marked = MarkedTree(rng, c, kMarkedNodes).Take();
    nlohmann::ordered_json row = {{"errors", c.name}};
    std::printf("%-26s", c.name);
    for (const auto& [name, solver] : kSolvers) {
      BOLE_ASSIGN_OR_RETURN(
          const double output,
          OutputError(backend, whole, solver, /*first=*/0, /*norm=*/0));
      BOLE_ASSIGN_OR_RETURN(
          const double correction,
          OutputError(backend, marked.problem, solver,
                      /*first=*/2 * kMarkedNodes, marked.norm));
      row[std::string(name) + "_output"] = output;
      row[std::string(name) + "_correction"] = correction;
      std::printf("  %s %.1e %.1e", name, output, correction);
    }
    std::printf("\n");
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace bole::cuda
