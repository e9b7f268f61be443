// Attention on tensor cores, where the GPU and the shape allow it.
#ifndef BOLE_KERNELS_CUDA_ATTENTION_TILE_ATTENTION_H_
#define BOLE_KERNELS_CUDA_ATTENTION_TILE_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/attention.h"
#include "kernels/cuda/attention/attention_tiles.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda {

// Used by one thread at a time, and on one stream.
class TileAttention {
 public:
  // Creates it for the current device.
  static absl::StatusOr<std::unique_ptr<TileAttention>> Create();
  ~TileAttention();

  // Whether Attend() supports it: bfloat16, heads of 256 dimensions, pages of
  // whole tiles of 64 tokens, on Hopper.
  static bool Covers(const AttentionParams& params, const Launch& on);

  // How many blocks share a request's tokens follows from the capacities of
  // rows, requests and pages. A launch whose capacity far exceeds the rows in
  // use therefore does not split a long prefix well. Only small launches use
  // scratch.
  // REQUIRES: Covers(params).
  size_t ScratchBytes(const AttentionParams& params) const;
  // scratch: ScratchBytes(). REQUIRES: Covers(params).
  absl::Status Attend(const AttentionParams& params, void* scratch,
                      const Launch& on) const;

  // Whether Decode() has a kernel for it that is faster than running the
  // operators one by one.
  static bool CoversDecode(const AttentionDecodeParams& params,
                           const Launch& on);
  // REQUIRES: CoversDecode(params, on).
  absl::Status Decode(const AttentionDecodeParams& params,
                      const Launch& on) const;

 private:
  TileAttention() = default;

  ClusterLimits limits_ = {};
  int32_t* arrived_ = nullptr;  // [kMaxGroupedUnits]
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_TILE_ATTENTION_H_
