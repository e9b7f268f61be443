// Random attention layers on the GPU with long prefixes, for benchmarks.
#ifndef BOLE_TESTS_BENCH_CUDA_ATTENTION_LAYERS_H_
#define BOLE_TESTS_BENCH_CUDA_ATTENTION_LAYERS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/attention.h"
#include "kernels/cuda/cuda_backend.h"
#include "worker_service/model/device_arrays.h"

namespace bole::cuda {

struct AttentionLoad {
  AttentionShape shape;
  int num_requests;     // B
  int num_nodes;        // T, of every request.
  int num_committed;    // Tokens before the nodes.
  bool chains = false;  // A chunk of prefill instead of a drafted tree.
};

// Bytes of the prefix, read once, and of the rows of one layer.
int64_t AttentionBytes(const AttentionLoad& load);
// Floating-point operations of the scores and of the weighted values.
int64_t AttentionFlops(const AttentionLoad& load);

// Memory for every load that is measured, filled once.
class AttentionPool {
 public:
  // Tokens times KV heads, of all layers, and elements of projected rows.
  static absl::StatusOr<std::unique_ptr<AttentionPool>> Create(
      CudaBackend& backend, int64_t head_tokens, int64_t row_elements);

  int64_t head_tokens() const { return head_tokens_; }

 private:
  friend class AttentionLayers;
  AttentionPool() = default;

  int64_t head_tokens_ = 0;
  DeviceMemory k_, v_, projected_, q_, out_;
};

// Operands of a load, whose layers each have their own pages, shuffled.
class AttentionLayers {
 public:
  static constexpr int kPageSize = 64;
  // The most tokens of a request: the page tables are those of a server for
  // longer contexts.
  static constexpr int kContext = 40 << 10;

  // REQUIRES: the pool has room.
  AttentionLayers(CudaBackend& backend, AttentionPool& pool,
                  const AttentionLoad& load);

  const absl::Status& status() const { return arrays_.status(); }
  // As many layers as no cache holds.
  int num_layers() const { return attend_.pages.num_layers; }
  AttentionParams Attend(int layer) const;
  QkvParams PrepareQkv(int layer) const;
  CompactKvParams Compact() const;

 private:
  DeviceArrays arrays_;
  AttentionParams attend_ = {};
  QkvParams prepare_ = {};
  RowPath path_ = {};
};

}  // namespace bole::cuda

#endif  // BOLE_TESTS_BENCH_CUDA_ATTENTION_LAYERS_H_
