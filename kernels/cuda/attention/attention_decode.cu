// Full attention for one token of every request, from its projection to its
// gated output, in one launch.
//
// A cluster of blocks processes a KV head of a row. Each block prepares the
// queries and takes tiles of 64 committed tokens, which one warp copies to a
// ring. Each of the other warps multiplies the queries with the keys of 8
// tokens, then the weights of all 64 with 32 dimensions of their values. One
// block also processes the row's own key and value. Each block sends its
// partial results to the blocks that merge their dimensions, always in the same
// order.
//
// Committed keys and values were written before the forward pass, so their
// loads start while the projection still runs.
#include "kernels/cuda/attention/attention_decode.h"

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention/attention_decode_found.cuh"
#include "kernels/cuda/attention/attention_decode_rows.cuh"
#include "kernels/cuda/attention/kv_rows.cuh"
#include "kernels/cuda/attention/qkv_units.cuh"
#include "kernels/cuda/check.h"
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/warp_barriers.cuh"

namespace bole::cuda {
namespace {

constexpr int kConsumers = 32 * kDecodeWarps;
constexpr int kThreads = kConsumers + 32;

#if __CUDA_ARCH__ >= 900

// The warps that prepare the row's own key and value; each of those before them
// prepares a query head.
constexpr int kKeyWarp = kDecodeWarps - 2;
constexpr int kValueWarp = kDecodeWarps - 1;

using RingAt = StageAt<kDecodeSlots>;

// Loads keys and values in turn for every tile of the block. Called by one
// thread.
template <int kHeads>
__device__ void LoadTiles(const AttentionDecodeArgs& args,
                          const DecodePlace& place, const KvRows& rows,
                          DecodeShared<kHeads>& shared) {
  const int64_t of_head = rows.Distance(args.p.qkv.layer, place.kv_head);
  RingAt at;
  for (int tile = place.rank; tile < place.tiles; tile += kDecodeCluster) {
    const int row = static_cast<int>(rows.Row(tile * kDecodeTokens) + of_head);
#pragma unroll
    for (int part = 0; part < 2; ++part, at.Advance()) {
      at.WaitEmpty(shared.empty);
      const uint32_t full = AddressOf(&shared.full[at.stage]);
      ArriveExpecting(full, kDecodeTileBytes);
#pragma unroll
      for (int block = 0; block < kDecodeHeadDim / 64; ++block) {
        CopyBox(part == 0 ? args.keys : args.values, 64 * block, row,
                AddressOf(shared.slots[at.stage]) + block * kDecodeBlockBytes,
                full);
      }
    }
  }
}

// Prepares the queries, the row's key and its value in shared memory; the
// row's owner also writes the key and value to the pages. `turn` must have been
// computed.
template <int kHeads>
__device__ void PrepareRow(const QkvParams& p, const DecodePlace& place,
                           const Weight& weight, int64_t own_row,
                           DecodeShared<kHeads>& shared) {
  const AttentionShape& s = p.shape;
  const int warp = DecodeWarp();
  const BFloat16* projected =
      As<BFloat16>(p.projected) +
      static_cast<int64_t>(place.row) * s.projected_width();
  if (warp < kHeads) {
    const int head = place.kv_head * kHeads + warp;
    const Unit x = LoadUnit(projected + 2 * head * kDecodeHeadDim);
    StoreUnit(NormAndRotateUnit(p, x, weight, shared.turn), shared.q[warp]);
  } else if (warp == kKeyWarp && place.owns_row()) {
    Unit x =
        LoadUnit(projected + s.k_column() + place.kv_head * kDecodeHeadDim);
    x = NormAndRotateUnit(p, x, weight, shared.turn);
    StoreUnit(x, shared.k);
    StoreUnit(x, As<BFloat16>(p.pages.k) + own_row * kDecodeHeadDim);
  } else if (warp == kValueWarp && place.owns_row()) {
    const Unit x =
        LoadUnit(projected + s.v_column() + place.kv_head * kDecodeHeadDim);
    StoreUnit(x, shared.v);
    StoreUnit(x, As<BFloat16>(p.pages.v) + own_row * kDecodeHeadDim);
  }
}

__device__ void SyncConsumers() { SyncThreads(1, kConsumers); }

// Processes all tiles of the block, by the warps that multiply.
template <int kHeads>
__device__ void AttendRow(const AttentionDecodeParams& p,
                          const DecodePlace& place, const KvRows& rows,
                          DecodeShared<kHeads>& shared) {
  const QkvParams& qkv = p.qkv;
  const Weight weight(DecodeWarp() < kHeads ? qkv.q_norm : qkv.k_norm);
  const int64_t own_row =
      place.owns_row()
          ? rows.Row(place.committed) + rows.Distance(qkv.layer, place.kv_head)
          : 0;
  if (static_cast<int>(threadIdx.x) < qkv.shape.rotary_dim / 2) {
    const float angle = static_cast<float>(place.committed) *
                        qkv.inverse_frequency[threadIdx.x];
    shared.turn[threadIdx.x] = {cosf(angle) * qkv.rotary_scale,
                                sinf(angle) * qkv.rotary_scale};
  }
  SyncConsumers();
  WaitForCluster();  // All blocks have initialised their barriers.
  WaitForPrevious();
  MergedPair<kHeads> merged;
  merged.LoadGates(p.attend, place);
  PrepareRow(qkv, place, weight, own_row, shared);
  SyncConsumers();
  QueryRows<kHeads> queries;
  queries.Load(shared);
  FoundOfRow<kHeads> found;
  found.Begin();
  RingAt at;
  int turn = 0;
#pragma unroll 1
  for (int tile = place.rank; tile < place.tiles; tile += kDecodeCluster) {
    at.WaitFull(shared.full);
    queries.Score(place, tile, AddressOf(shared.slots[at.stage]), turn, shared);
    ArriveWarp(&shared.empty[at.stage]);
    at.Advance();
    SyncConsumers();
    found.Rescale(found.Largest(turn, shared));
    at.WaitFull(shared.full);
    found.Add(place, tile, AddressOf(shared.slots[at.stage]), turn, shared);
    ArriveWarp(&shared.empty[at.stage]);
    at.Advance();
    turn ^= 1;
  }
  if (place.owns_row()) found.AddOwn(queries.ScoreOwn(shared), shared);
  found.Send(place, shared);
  merged.Store(p.attend, place, shared);
}

#endif

// Grid: the cluster's blocks, KV heads, rows. On a multiprocessor, a block of
// this kernel leaves registers for two blocks of streamed products, and shared
// memory for one.
template <int kHeads>
__global__ void __maxnreg__(120)
    AttentionDecodeKernel(const __grid_constant__ AttentionDecodeArgs args) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<DecodeShared<kHeads>*>(memory);
  StartNext();
  const RowBatch& batch = args.p.qkv.batch;
  DecodePlace place = {.row = static_cast<int>(blockIdx.z),
                       .kv_head = static_cast<int>(blockIdx.y),
                       .rank = static_cast<int>(blockIdx.x),
                       .committed = 0,
                       .tiles = 0};
  if (threadIdx.x == 0) {
    for (int i = 0; i < kDecodeSlots; ++i) {
      InitBarrier(AddressOf(&shared.full[i]), 1);
      InitBarrier(AddressOf(&shared.empty[i]), kDecodeWarps);
    }
    InitBarrier(AddressOf(&shared.received), 1);
    FenceBarrierInit();
    ArriveExpecting(
        AddressOf(&shared.received),
        static_cast<int>(sizeof(shared.weights) + sizeof(shared.out)));
  }
  ReleaseToCluster();
  __syncthreads();
  // The topology was written before the forward pass.
  if (place.row >= __ldcg(batch.rows.count)) {
    WaitForCluster();
    WaitForPrevious();
    return;
  }
  const int request = __ldcg(batch.request + place.row);
  place.committed = __ldcg(batch.committed + request);
  place.tiles = (place.committed + kDecodeTokens - 1) / kDecodeTokens;
  const KvRows rows(batch, args.p.qkv.shape, args.p.qkv.pages, request);
  if (threadIdx.x >= kConsumers) {
    if (threadIdx.x == kConsumers) LoadTiles(args, place, rows, shared);
    __syncwarp();
    WaitForCluster();
    return;
  }
  AttendRow(args.p, place, rows, shared);
#endif
}

int QueryGroup(const AttentionDecodeParams& params) {
  const AttentionShape& s = params.qkv.shape;
  return s.query_heads / s.kv_heads;
}

template <int kHeads>
absl::Status Run(const AttentionDecodeArgs& args, const Launch& on) {
  constexpr size_t kBytes = sizeof(DecodeShared<kHeads>);
  cudaError_t error = cudaFuncSetAttribute(
      &AttentionDecodeKernel<kHeads>,
      cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kBytes));
  if (error == cudaSuccess) {
    error =
        cudaFuncSetAttribute(&AttentionDecodeKernel<kHeads>,
                             cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  }
  if (error != cudaSuccess) return ToStatus(error, "AttentionDecode");
  const QkvParams& qkv = args.p.qkv;
  return LaunchDependent(
      "AttentionDecode", &AttentionDecodeKernel<kHeads>,
      {.grid = dim3(kDecodeCluster, qkv.shape.kv_heads, qkv.batch.rows.max),
       .block = kThreads,
       .shared_bytes = kBytes,
       .cluster = kDecodeCluster},
      on, args);
}

}  // namespace

bool CanDecodeAttention(const AttentionDecodeParams& params, const Launch& on) {
  // Units fill at most half of the multiprocessors. If all had such a block,
  // the next kernels would lose more time than this one saves.
  constexpr int kMaxUnits = 4;
  const AttentionShape& s = params.qkv.shape;
  const int group = QueryGroup(params);
  return on.overlaps && HasUnits(s, on.type) && s.rotary_dim <= 2 * kMaxTurns &&
         (group == 4 || group == 6) && params.qkv.first_key == 0 &&
         s.kv_heads * params.qkv.batch.rows.max <= kMaxUnits;
}

absl::Status LaunchAttentionDecode(const AttentionDecodeArgs& args,
                                   const Launch& on) {
  return QueryGroup(args.p) == 4 ? Run<4>(args, on) : Run<6>(args, on);
}

}  // namespace bole::cuda
