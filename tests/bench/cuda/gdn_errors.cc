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
#include "tests/bench/cuda/draft_trees.h"
#include "tests/bench/cuda/gdn_layers.h"
#include "tests/kernels/gdn_oracle.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "worker_service/device_arrays.h"

namespace bole::cuda {
namespace {

using ::bole::testing::Decay;
using ::bole::testing::GdnProblem;
using ::bole::testing::GuardedBuffer;
using ::bole::testing::HeadProblem;
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

GdnProblem MakeProblem(std::mt19937& rng, const Case& c, int num_nodes) {
  const std::vector<testing::Parents> trees = {DraftTree(
      rng, {.num_nodes = num_nodes, .max_depth = c.max_depth, .top_k = 4})};
  testing::HostBatch batch = testing::PackTrees(trees);
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

// Turns the problem into one whose outputs are errors of U. Keys lose their
// last dimensions to two marks for each node: k_i alone has mark i, and no key
// has mark T + i. The query i is both marks, so that
//   o_i = (k_i's mark) u_i + exp(Gamma_i) S[:, T + i].
// The state has nothing at the first T marks; its column T + i, which no key
// reads, is set to cancel most of the first term: to the nearest that is exact
// in bfloat16. What is
// left is small, and its rounding to bfloat16 does not hide the error of u_i.
// Returns the rms of the first term.
double PickCorrections(GdnProblem& p) {
  const int n = p.batch.num_rows();
  const int content = kDim - 2 * n;
  for (int i = 0; i < n; ++i) {
    for (int head = 0; head < kKeyHeads; ++head) {
      const size_t row = p.KeyRow(0, i, head);
      const std::span<float> k = p.k.span(row * kDim, kDim);
      const std::span<float> q = p.q.span(row * kDim, kDim);
      double norm = 1e-6;
      for (int d = 0; d < kDim; ++d) {
        if (d >= content) k[d] = d == content + i ? 0.5f : 0.0f;
        q[d] = d == content + i || d == content + n + i ? 1.0f : 0.0f;
        norm += static_cast<double>(k[d]) * k[d];
      }
      p.k_scale[row] = static_cast<float>(1 / std::sqrt(norm));
      p.q_scale[row] = 1;
    }
  }
  double sum = 0;
  for (int head = 0; head < kValueHeads; ++head) {
    const std::span<float> state = p.HeadState(0, 0, head);
    for (int c = 0; c < kDim; ++c) {
      for (int d = content; d < kDim; ++d) state[c * kDim + d] = 0;
    }
    const HeadProblem h = ExtractHead(p, 0, 0, head);
    const HeadSolution exact = RunRecurrence(h);
    for (int i = 0; i < n; ++i) {
      double gamma = 0;
      for (int j = i; j >= 0; j = h.parents[j]) gamma += h.log_decay[j];
      for (int c = 0; c < kDim; ++c) {
        const double o = exact.o[i * kDim + c];
        sum += o * o;
        state[c * kDim + content + n + i] =
            Rounded(static_cast<float>(-o * std::exp(-gamma)));
      }
    }
  }
  return std::sqrt(sum / (kValueHeads * n * kDim));
}

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

// The rms difference of the outputs and float64's, over the rms of those or
// over `norm` if there is one.
absl::StatusOr<double> OutputError(CudaBackend& backend, const GdnProblem& p,
                                   TreeSolver solver, double norm) {
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
    for (int i = 0; i < p.batch.num_rows(); ++i) {
      for (int c = 0; c < kDim; ++c) {
        const double want = exact.o[i * kDim + c];
        const double got = out[p.ValueRow(0, i, head) * kDim + c];
        error += (got - want) * (got - want);
        total += want * want;
      }
    }
  }
  const double count = static_cast<double>(out.size());
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
    const GdnProblem whole = MakeProblem(rng, c, c.num_nodes);
    nlohmann::ordered_json row = {{"errors", c.name}};
    std::printf("%-26s", c.name);
    // Elsewhere exp(-Gamma) would leave the range of the state.
    const bool has_marks = c.decay == Decay::kMild;
    GdnProblem marked = MakeProblem(rng, c, kMarkedNodes);
    const double norm = has_marks ? PickCorrections(marked) : 0;
    for (const auto& [name, solver] : kSolvers) {
      BOLE_ASSIGN_OR_RETURN(const double output,
                            OutputError(backend, whole, solver, 0));
      row[std::string(name) + "_output"] = output;
      std::printf("  %s %.1e", name, output);
      if (!has_marks) continue;
      BOLE_ASSIGN_OR_RETURN(const double correction,
                            OutputError(backend, marked, solver, norm));
      row[std::string(name) + "_correction"] = correction;
      std::printf(" %.1e", correction);
    }
    std::printf("\n");
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace bole::cuda
