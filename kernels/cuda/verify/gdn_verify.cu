// Verification of a forest: the dispatch to the kernels, and plain versions
// that the fast ones are compared with. One is the closed form in float32, the
// other goes node by node.
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_recurrence.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/verify/choose_verify.h"
#include "kernels/cuda/verify/gdn_verify_alone.h"
#include "kernels/cuda/verify/gdn_verify_batched.h"
#include "kernels/cuda/verify/gdn_verify_few.h"
#include "kernels/cuda/verify/gdn_verify_fused.h"
#include "kernels/cuda/verify/gdn_verify_long.h"
#include "kernels/cuda/verify/gdn_verify_paths.h"
#include "kernels/cuda/verify/gdn_verify_two_stage.h"
#include "kernels/cuda/verify/gdn_verify_walk.h"

namespace bole::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kMaxNodes = 128;

// A request's rows in one value head.
template <typename T>
class HeadRows {
 public:
  __device__ HeadRows(const GdnCoreParams& p, int request, int head)
      : p_(p),
        factors_(p.shape, p.factors, p.layer),
        head_(head),
        key_head_(KeyHead(p.shape, head)),
        first_(p.batch.first_row[request]),
        count_(p.batch.first_row[request + 1] - first_) {}

  __device__ int count() const { return count_; }
  __device__ int parent(int i) const {
    return p_.batch.mask_words == 0 ? i - 1 : p_.batch.parent[first_ + i];
  }
  __device__ float beta(int i) const {
    return factors_.beta(first_ + i, head_);
  }
  __device__ float log_decay(int i) const {
    return factors_.log_decay(first_ + i, head_);
  }
  __device__ const T* v(int i) const { return factors_.v(first_ + i, head_); }
  __device__ T* out(int i) const {
    return As<T>(p_.out) +
           (static_cast<int64_t>(first_ + i) * p_.shape.value_heads + head_) *
               p_.shape.value_dim;
  }
  template <int kPerLane>
  __device__ WarpVector<kPerLane> k(int i) const {
    WarpVector<kPerLane> k;
    k.LoadScaled(factors_.k(first_ + i, key_head_),
                 factors_.k_scale(first_ + i, key_head_), p_.shape.key_dim);
    return k;
  }
  template <int kPerLane>
  __device__ WarpVector<kPerLane> q(int i) const {
    const int64_t row =
        static_cast<int64_t>(first_ + i) * p_.shape.key_heads + key_head_;
    WarpVector<kPerLane> q;
    q.LoadScaled(As<T>(p_.q) + row * p_.shape.key_dim, p_.q_scale[row],
                 p_.shape.key_dim);
    return q;
  }

 private:
  const GdnCoreParams& p_;
  const FactorRows<T> factors_;
  const int head_;
  const int key_head_;
  const int first_;
  const int count_;
};

// Shared memory of a block: one T x T matrix, and U.
struct Workspace {
  double* log_decay;  // [T] Gamma, in double, so that differences after a
                      // strong decay near the root stay accurate.
  float* matrix;      // [T, T] -G, then C.
  float* u;           // [T, dv]

  __device__ Workspace(unsigned char* memory, int max_nodes)
      : log_decay(reinterpret_cast<double*>(memory)),
        matrix(reinterpret_cast<float*>(log_decay + max_nodes)),
        u(matrix + max_nodes * max_nodes) {}
  static size_t Bytes(int max_nodes, int value_dim) {
    const size_t n = max_nodes;
    return n * sizeof(double) + (n * n + n * value_dim) * sizeof(float);
  }
};

// Computes -G_ij = -beta_i exp(Gamma_i - Gamma_j) k_i k_j for ancestors j of i,
// or C_ij = exp(Gamma_i - Gamma_j) q_i k_j for those and i itself. The
// exponential is only computed for these, so its argument is never positive.
// There is one warp for each row.
template <typename T, int kPerLane, bool kIsC>
__device__ void BuildMatrix(const HeadRows<T>& rows, const Workspace& w) {
  const int n = rows.count();
  for (int i = threadIdx.x / 32; i < n; i += kWarps) {
    float* row = w.matrix + i * n;
    for (int j = threadIdx.x % 32; j < n; j += 32) row[j] = 0;
    __syncwarp();
    const auto x =
        kIsC ? rows.template q<kPerLane>(i) : rows.template k<kPerLane>(i);
    for (int j = kIsC ? i : rows.parent(i); j >= 0; j = rows.parent(j)) {
      const float gram = Dot(x, rows.template k<kPerLane>(j));
      const float decay =
          expf(static_cast<float>(w.log_decay[i] - w.log_decay[j]));
      if (threadIdx.x % 32 != 0) continue;
      row[j] = kIsC ? decay * gram : -rows.beta(i) * decay * gram;
    }
  }
}

// Computes the products of the state with every k (written to U as the right
// side R) or with every q (written to out). There is one warp for each row of
// the state.
template <typename T, int kPerLane, bool kIsOut>
__device__ void MultiplyState(const GdnCoreParams& p, const HeadRows<T>& rows,
                              const float* state, const Workspace& w) {
  const int dim = p.shape.value_dim;
  for (int c = threadIdx.x / 32; c < dim; c += kWarps) {
    WarpVector<kPerLane> s;
    s.Clear();
    if (state != nullptr) {
      s.Load(state + static_cast<int64_t>(c) * p.shape.key_dim,
             p.shape.key_dim);
    }
    for (int i = 0; i < rows.count(); ++i) {
      const float product = Dot(s, kIsOut ? rows.template q<kPerLane>(i)
                                          : rows.template k<kPerLane>(i));
      if (threadIdx.x % 32 != 0) continue;
      const float decayed = expf(static_cast<float>(w.log_decay[i])) * product;
      if (kIsOut) {
        // O = D_P Q S + C U.
        float o = decayed;
        for (int j = i; j >= 0; j = rows.parent(j)) {
          o += w.matrix[i * rows.count() + j] * w.u[j * dim + c];
        }
        rows.out(i)[c] = FromFloat<T>(o);
      } else {
        w.u[i * dim + c] = rows.beta(i) * (ToFloat(rows.v(i)[c]) - decayed);
      }
    }
  }
}

// Grid: heads, requests.
template <typename T, int kPerLane>
__global__ void __launch_bounds__(kThreads)
    ClosedFormKernel(GdnCoreParams p, int max_nodes) {
  extern __shared__ __align__(16) unsigned char memory[];
  const int head = blockIdx.x;
  const int request = blockIdx.y;
  const HeadRows<T> rows(p, request, head);
  const int n = rows.count();
  if (n == 0) return;
  if (n > max_nodes) __trap();
  const Workspace w(memory, max_nodes);
  const float* state =
      p.batch.committed[request] == 0
          ? nullptr
          : HeadState(p.shape, p.states, p.batch.slot[request], p.layer, head);

  // Each node climbs to the root by itself, so threads need no order.
  for (int i = threadIdx.x; i < n; i += kThreads) {
    double sum = 0;
    for (int j = i; j >= 0; j = rows.parent(j)) sum += rows.log_decay(j);
    w.log_decay[i] = sum;
  }
  __syncthreads();
  BuildMatrix<T, kPerLane, /*kIsC=*/false>(rows, w);
  MultiplyState<T, kPerLane, /*kIsOut=*/false>(p, rows, state, w);
  __syncthreads();
  // (I + G) U = R by substitution, a thread for each column.
  const int dim = p.shape.value_dim;
  for (int c = threadIdx.x; c < dim; c += kThreads) {
    for (int i = 0; i < n; ++i) {
      float u = w.u[i * dim + c];
      for (int j = rows.parent(i); j >= 0; j = rows.parent(j)) {
        u += w.matrix[i * n + j] * w.u[j * dim + c];
      }
      w.u[i * dim + c] = u;
    }
  }
  __syncthreads();
  BuildMatrix<T, kPerLane, /*kIsC=*/true>(rows, w);
  __syncthreads();
  MultiplyState<T, kPerLane, /*kIsOut=*/true>(p, rows, state, w);
}

// Follows the definition: every node replays its own path on the committed
// state, with a warp for each row of the state. Grid: value tiles, heads, rows.
template <typename T, int kPerLane>
__global__ void __launch_bounds__(kThreads) SerialKernel(GdnCoreParams p) {
  const int row = blockIdx.z;
  if (row >= *p.batch.rows.count) return;
  const int head = blockIdx.y;
  const int c = static_cast<int>(blockIdx.x) * kWarps +
                static_cast<int>(threadIdx.x / 32);
  if (c >= p.shape.value_dim) return;
  const int request = p.batch.request[row];
  const int node = p.batch.node[row];
  const HeadRows<T> rows(p, request, head);
  WarpVector<kPerLane> state;
  state.Clear();
  if (p.batch.committed[request] > 0) {
    state.Load(
        HeadState(p.shape, p.states, p.batch.slot[request], p.layer, head) +
            static_cast<int64_t>(c) * p.shape.key_dim,
        p.shape.key_dim);
  }
  int path[kMaxNodes];
  int length = 0;
  for (int j = node; j >= 0; j = rows.parent(j)) path[length++] = j;
  for (int i = length - 1; i >= 0; --i) {
    const int j = path[i];
    Advance(state, rows.template k<kPerLane>(j), expf(rows.log_decay(j)),
            rows.beta(j), ToFloat(rows.v(j)[c]));
  }
  const float o = Dot(state, rows.template q<kPerLane>(node));
  if (threadIdx.x % 32 == 0) rows.out(node)[c] = FromFloat<T>(o);
}

template <typename T, int kPerLane>
absl::Status LaunchClosedForm(const GdnCoreParams& p, const Launch& on) {
  const int max_nodes =
      p.batch.mask_words > 0 ? 32 * p.batch.mask_words : p.batch.rows.max;
  const size_t bytes = Workspace::Bytes(max_nodes, p.shape.value_dim);
  const cudaError_t error = cudaFuncSetAttribute(
      ClosedFormKernel<T, kPerLane>,
      cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error != cudaSuccess) {
    cudaGetLastError();
    return absl::UnimplementedError(
        absl::StrCat("GdnVerify: trees of ", max_nodes, " nodes and values of ",
                     p.shape.value_dim, " need ", bytes,
                     " bytes of shared memory, more than this GPU has"));
  }
  const dim3 grid(p.shape.value_heads, p.batch.max_requests);
  ClosedFormKernel<T, kPerLane>
      <<<grid, kThreads, bytes, on.stream>>>(p, max_nodes);
  return LaunchStatus("GdnVerify");
}

template <typename T, int kPerLane>
absl::Status LaunchSerial(const GdnCoreParams& p, const Launch& on) {
  const dim3 grid((p.shape.value_dim + kWarps - 1) / kWarps,
                  p.shape.value_heads, p.batch.rows.max);
  SerialKernel<T, kPerLane><<<grid, kThreads, 0, on.stream>>>(p);
  return LaunchStatus("GdnVerify, node by node");
}

absl::Status VerifyPlain(const GdnCoreParams& params, const Launch& on) {
  absl::Status (*launch)(const GdnCoreParams&, const Launch&) = nullptr;
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    WithPerLane(params.shape.key_dim, [&](auto per_lane) {
      constexpr int kPerLane = decltype(per_lane)::value;
      launch = params.solver == TreeSolver::kSerial
                   ? &LaunchSerial<T, kPerLane>
                   : &LaunchClosedForm<T, kPerLane>;
    });
  });
  if (launch != nullptr) return launch(params, on);
  return absl::UnimplementedError(absl::StrCat("GdnVerify: keys of ",
                                               params.shape.key_dim,
                                               "; the kernels hold up to 256"));
}

}  // namespace

VerifyWay ChooseVerify(const GdnCoreParams& params, const Launch& on) {
  if (params.solver == TreeSolver::kSerial) {
    return params.factors.node_states != nullptr ? VerifyWay::kWalk
                                                 : VerifyWay::kSerial;
  }
  if (CanVerifyTwoStage(params, on)) return VerifyWay::kTwoStage;
  if (CanVerifyAlone(params, on)) return VerifyWay::kAlone;
  if (CanVerifyFew(params, on)) return VerifyWay::kFew;
  if (!CanVerifyFused(params, on)) return VerifyWay::kPlain;
  const int max_nodes = FusedNodes(params.batch);
  if (CanVerifyBatched(params, max_nodes, on)) return VerifyWay::kBatched;
  if (CanVerifyPaths(params, max_nodes, on)) return VerifyWay::kPaths;
  if (CanVerifyLong(params, max_nodes, on)) return VerifyWay::kLong;
  return VerifyWay::kFused;
}

size_t GdnVerifyScratchBytes(const GdnCoreParams& params, const Launch& on) {
  return ChooseVerify(params, on) == VerifyWay::kTwoStage
             ? TwoStageScratchBytes(params)
             : 0;
}

absl::Status GdnVerify(const GdnCoreParams& params, void* scratch,
                       const Launch& on) {
  switch (ChooseVerify(params, on)) {
    case VerifyWay::kTwoStage:
      return GdnVerifyTwoStage(params, scratch, on);
    case VerifyWay::kAlone:
      return GdnVerifyAlone(params, on);
    case VerifyWay::kFew:
      return GdnVerifyFew(params, on);
    case VerifyWay::kBatched:
      return GdnVerifyBatched(params, FusedNodes(params.batch), on);
    case VerifyWay::kPaths:
      return GdnVerifyPaths(params, on);
    case VerifyWay::kLong:
      return GdnVerifyLong(params, on);
    case VerifyWay::kFused:
      return GdnVerifyFused(params, on);
    case VerifyWay::kWalk:
      return GdnVerifyWalk(params, on);
    case VerifyWay::kPlain:
    case VerifyWay::kSerial:
      break;
  }
  return VerifyPlain(params, on);
}

}  // namespace bole::cuda
