// Random linear layers on the GPU with drafted trees, for benchmarks.
#ifndef BOLE_TESTS_BENCH_CUDA_GDN_LAYERS_H_
#define BOLE_TESTS_BENCH_CUDA_GDN_LAYERS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/attention.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/gdn.h"
#include "tests/testing/random_forest.h"
#include "worker_service/model/device_arrays.h"

namespace bole::cuda {

struct GdnLayersOptions {
  GdnShape shape;
  int num_requests;  // B
  int num_nodes;     // T, of every request.
  int max_depth = 8;
  int top_k = 4;
  int num_accepted = 8;            // Nodes of every path, at most.
  int num_layers;                  // L
  bool keeps_node_states = false;  // For kSerial.
};

// Operands of L layers, each with its own: states, factors, q, out.
class GdnLayers {
 public:
  static constexpr int kAttentionLayers = 8;

  // `backend` must outlive the object.
  static absl::StatusOr<std::unique_ptr<GdnLayers>> Create(
      CudaBackend& backend, const GdnLayersOptions& options);

  // kSerial keeps states of nodes if there is room for them.
  GdnCoreParams Core(int layer, TreeSolver solver) const;
  // All layers: by replay, or from the nodes' states.
  GdnCommitParams Commit(bool from_node_states = false) const;
  // The keys and values of the same paths, in kAttentionLayers.
  CompactKvParams Compact() const;

  // What a round keeps of every node for its commit, in bytes: of the states'
  // commit (k, v and gates), of the windows' (raw rows), and node states.
  static int64_t FactorBytes(const GdnLayersOptions& options);
  static int64_t RawBytes(const GdnLayersOptions& options);
  static int64_t NodeStateBytes(const GdnLayersOptions& options);

  // Bytes that verification of one layer must read and write: the states once,
  // q, k, v and gates in, o out.
  static int64_t VerifyBytes(const GdnLayersOptions& options);
  // U, which a verifier writes that commits by it.
  static int64_t CorrectionBytes(const GdnLayersOptions& options);
  // The states of one layer, read and written.
  static int64_t CommitBytes(const GdnLayersOptions& options);

 private:
  GdnLayers(CudaBackend& backend, const GdnLayersOptions& options);
  // Keys, values and windows of what is committed: of any content.
  void AllocateRows();
  absl::Status Fill(CudaBackend& backend);

  GdnLayersOptions options_;
  DeviceArrays arrays_;
  std::vector<DeviceMemory> random_;
  RowBatch batch_ = {};
  RowPath path_ = {};
  GdnStates states_ = {};
  GdnFactors factors_ = {};
  KvPages pages_ = {};
  Activation* q_ = nullptr;         // [L, N, Hk, dk]
  Activation* out_ = nullptr;       // [L, N, Hv, dv]
  const float* q_scale_ = nullptr;  // [N, Hk]
};

// A batch's arrays, copied to the GPU.
RowBatch CopyBatch(const testing::HostBatch& batch, DeviceArrays& arrays);

}  // namespace bole::cuda

#endif  // BOLE_TESTS_BENCH_CUDA_GDN_LAYERS_H_
