// A layer in one launch: what the warps of a block do for the front, the
// verification and the norm of a tile. sm_90 and later.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_LAYER_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_LAYER_CUH_

#include <cstdint>

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/verify_few.cuh"
#include "kernels/cuda/verify/verify_front.cuh"
#include "kernels/cuda/verify/verify_norm.cuh"
#include "kernels/cuda/verify/verify_solve.cuh"
#include "kernels/cuda/verify/verify_tile.cuh"
#include "kernels/cuda/warp_barriers.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// Warps of a layer: those of keys and queries come first, then those of gates,
// then those of values, which have no matrices to build.
template <typename C>
constexpr int kGateWarps = C::kNodes / 32;
inline constexpr int kValueWarps = 2;
template <typename C>
constexpr int kKeyWarps = C::kWarps - kGateWarps<C> - kValueWarps;

template <typename C>
using FrontOf = TileFront<C::kNodes, C::kTileColumns, kKeyWarps<C>>;

template <typename C>
struct LayerShared {
  FewShared<C> verify;
  FrontOf<C> front;
  HeadSquares<C::kNodes> squares;
  TileNorm<C> norm;
  // What blocks of the cluster send: keys and queries; squares, and the block's
  // own outputs.
  uint64_t keys_barrier;
  uint64_t squares_barrier;
  // What warps do for the others of the block.
  uint64_t state_full;
  uint64_t rows_full;
  uint64_t values_full;
  uint64_t gates_stored;  // For each other.

  // By one thread; before use the cluster must synchronise.
  __device__ void InitBarriers() {
    InitBarrier(AddressOf(&keys_barrier), 1);
    InitBarrier(AddressOf(&squares_barrier), 1 + 32 * C::kColumnGroups);
    InitLaneBarrier(&state_full, C::kWarps);
    InitLaneBarrier(&rows_full, kValueWarps);
    InitLaneBarrier(&values_full, kValueWarps + C::kColumnWarps);
    InitLaneBarrier(&gates_stored, kGateWarps<C>);
    FenceBarrierInit();
  }
};

// The thread arrives when its copies are there.
__device__ inline void ArriveWithCopies(const uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(
                   AddressOf(barrier))
               : "memory");
}

// The gates of a layer, by the nodes' threads; and what the norm will read.
template <typename C>
__device__ void RunGates(const GdnVerifyLayerParams& p, const LayerTile& tile,
                         ProjectedGates& projected, LayerShared<C>& s,
                         Gates<C>& gates) {
  FewShared<C>& verify = s.verify;
  if (gates.valid) projected.Load(p.conv, tile, gates.node);
  s.norm.template LoadAsync<C::kNodes>(p.norm, tile, gates.node);
  projected.Compute(p.conv, tile, gates);
  gates.Store(verify.gates);
  ArriveLanes(&s.gates_stored);
  WaitBarrier(AddressOf(&s.gates_stored), 0);
  const float decay = verify.gates.SumPath(verify.gates.heads[0], gates.node);
  WaitForCopies<0>();
  WaitBarrier(AddressOf(&s.keys_barrier), 0);
  FinishGates(verify, gates, decay);
}

// The values: half of the nodes by the warps that have nothing else to do, the
// others by those that wait for keys of other blocks. `worker`: first those of
// the columns.
template <typename C>
__device__ void RunValues(const GdnVerifyLayerParams& p, const LayerTile& tile,
                          int padded, int worker, LayerShared<C>& s) {
  constexpr int kHalf = C::kNodes / FrontOf<C>::kValueRows / 2;
  const int end = padded / FrontOf<C>::kValueRows;
  WaitBarrier(AddressOf(&s.rows_full), 0);
  if (worker < C::kColumnWarps) {
    s.front.RunValues(p.conv, tile, kHalf + worker, end, C::kColumnWarps,
                      s.verify);
  } else {
    s.front.RunValues(p.conv, tile, worker - C::kColumnWarps, min(end, kHalf),
                      kValueWarps, s.verify);
  }
  ArriveLanes(&s.values_full);
}

// The front: its factors go to memory, keys and queries to all blocks of the
// cluster as well.
template <typename C>
__device__ void RunFront(const GdnVerifyLayerParams& p, const LayerTile& tile,
                         int padded, LayerShared<C>& s, Gates<C>& gates) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int value_warp = warp - kKeyWarps<C> - kGateWarps<C>;
  ProjectedGates projected(p.conv, tile);
  if (gates.node >= 0) s.front.FindTaps(p.conv, tile, gates);
  // Behind what the taps read, which would wait for it.
  s.verify.state.template LoadAsync<C::kWarps>(StateOfTile<C>(p.core, tile));
  CommitCopies();
  s.front.PrefetchWindow(p.conv, tile);
  if (threadIdx.x == 0) {
    ArriveExpecting(AddressOf(&s.keys_barrier), s.front.BytesOfKeys(padded));
    ArriveExpecting(AddressOf(&s.squares_barrier), s.squares.Bytes(padded));
  }
  WaitForCopies<1>();  // The weights; not yet the state.
  WaitForCluster();    // All blocks have started.
  __syncthreads();
  WaitForPrevious();
  ArriveWithCopies(&s.state_full);
  if (gates.node >= 0) {
    RunGates<C>(p, tile, projected, s, gates);
  } else if (value_warp < 0) {
    s.front.RunKeys(p.conv, tile, padded, s.verify, s.keys_barrier);
    if (warp < C::kColumnWarps) RunValues<C>(p, tile, padded, warp, s);
  } else {
    s.front.template LoadRows<32 * kValueWarps>(
        p.conv, tile, static_cast<int>(threadIdx.x) % (32 * kValueWarps));
    ArriveWithCopies(&s.rows_full);
    RunValues<C>(p, tile, padded, C::kColumnWarps + value_warp, s);
  }
}

// The layer in a block.
template <typename C>
__device__ void VerifyInLayer(const GdnVerifyLayerParams& p,
                              const LayerTile& tile, int padded,
                              LayerShared<C>& s, Gates<C>& gates) {
  RunFront<C>(p, tile, padded, s, gates);
  WaitBarrier(AddressOf(&s.state_full), 0);
  const auto wait_rows = [&] { WaitBarrier(AddressOf(&s.keys_barrier), 0); };
  const auto wait_values = [&] { WaitBarrier(AddressOf(&s.values_full), 0); };
  const auto put = [&](int group, int j) {
    SendSquares<C>(tile, group, j, s.verify.values, s.squares,
                   s.squares_barrier);
    if (j == padded / kTileRows - 1) Arrive(AddressOf(&s.squares_barrier));
  };
  RunRoles<C>(s.verify, padded / kTileRows, wait_rows, wait_values, put);
  WaitBarrier(AddressOf(&s.squares_barrier), 0);
  s.norm.Store(p.norm, tile, s.verify.values, s.squares);
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_LAYER_CUH_
