#include "kernels/cuda/attention/tile_attention.h"

#include <cstddef>
#include <limits>

#include "common/status_macros.h"
#include "cuda_runtime_api.h"
#include "kernels/cuda/attention/attention_decode.h"
#include "kernels/cuda/attention/attention_tiles.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/device_shape.h"
#include "kernels/cuda/tensor_map.h"

namespace bole::cuda {
namespace {

int64_t PoolRows(const AttentionParams& p) {
  return static_cast<int64_t>(p.pages.num_layers) * p.pages.num_pages *
         p.shape.kv_heads * p.pages.page_size;
}

// Maps all keys or all values of the pools, in boxes of a tile's rows and 64
// columns.
absl::StatusOr<CUtensorMap> MapOfPool(const AttentionParams& p,
                                      const Activation* pool) {
  return MapOf({.data = pool,
                .rows = PoolRows(p),
                .columns = kTileHeadDim,
                .box_rows = kTileTokens,
                .box_columns = 64});
}

}  // namespace

absl::StatusOr<std::unique_ptr<TileAttention>> TileAttention::Create() {
  BOLE_ASSIGN_OR_RETURN(const DeviceShape device, CurrentDeviceShape());
  std::unique_ptr<TileAttention> attention(new TileAttention());
  if (!device.is_hopper()) return attention;
  BOLE_RETURN_IF_ERROR(QueryClusters(attention->limits_));
  constexpr size_t kBytes = kMaxGroupedUnits * sizeof(int32_t);
  void* arrived = nullptr;
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaMalloc(&arrived, kBytes), "counters of Attend"));
  attention->arrived_ = static_cast<int32_t*>(arrived);
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaMemset(arrived, 0, kBytes), "counters of Attend"));
  return attention;
}

TileAttention::~TileAttention() { cudaFree(arrived_); }

bool TileAttention::Covers(const AttentionParams& params, const Launch& on) {
  return on.is_hopper && on.type == ElementType::kBFloat16 &&
         params.shape.head_dim == kTileHeadDim &&
         params.pages.page_size % kTileTokens == 0 &&
         PoolRows(params) <= std::numeric_limits<int32_t>::max();
}

size_t TileAttention::ScratchBytes(const AttentionParams& params) const {
  return TileScratchFloats(params, PlanTiles(params, limits_)) * sizeof(float);
}

absl::Status TileAttention::Attend(const AttentionParams& params, void* scratch,
                                   const Launch& on) const {
  BOLE_ASSIGN_OR_RETURN(const CUtensorMap keys,
                        MapOfPool(params, params.pages.k));
  BOLE_ASSIGN_OR_RETURN(const CUtensorMap values,
                        MapOfPool(params, params.pages.v));
  return LaunchAttendTiles({.keys = keys,
                            .values = values,
                            .p = params,
                            .plan = PlanTiles(params, limits_),
                            .scratch = static_cast<float*>(scratch),
                            .arrived = arrived_},
                           on);
}

bool TileAttention::CoversDecode(const AttentionDecodeParams& params,
                                 const Launch& on) {
  return Covers(params.attend, on) && CanDecodeAttention(params, on);
}

absl::Status TileAttention::Decode(const AttentionDecodeParams& params,
                                   const Launch& on) const {
  const KvPages& pages = params.attend.pages;
  BOLE_ASSIGN_OR_RETURN(const CUtensorMap keys,
                        MapOfPool(params.attend, pages.k));
  BOLE_ASSIGN_OR_RETURN(const CUtensorMap values,
                        MapOfPool(params.attend, pages.v));
  return LaunchAttentionDecode({.keys = keys, .values = values, .p = params},
                               on);
}

}  // namespace bole::cuda
