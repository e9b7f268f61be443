// Prefill of chains. It runs in chunk form where the GPU and the heads allow
// it, otherwise row after row.
#include <cstddef>

#include "absl/status/status.h"
#include "kernels/cuda/gdn/gdn_plain.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/prefill/gdn_chunks.h"

namespace bole::cuda {

bool PrefillsInChunks(const GdnShape& shape, const Launch& on) {
  return on.is_hopper && on.type == ElementType::kBFloat16 &&
         shape.key_dim == 128 && shape.value_dim == 128;
}

size_t GdnPrefillScratchBytes(const GdnCoreParams& params, const Launch& on) {
  if (!PrefillsInChunks(params.shape, on)) return 0;
  const size_t chunks =
      MaxChunks(params.batch.rows.max, params.batch.max_requests);
  return chunks * params.shape.value_heads * sizeof(ChunkRecord);
}

absl::Status GdnPrefill(const GdnCoreParams& params, void* scratch,
                        const Launch& on) {
  if (!PrefillsInChunks(params.shape, on)) {
    return RunRows("GdnPrefill", params, on);
  }
  auto* records = static_cast<ChunkRecord*>(scratch);
  const absl::Status factors = ComputeChunkFactors(params, records, on);
  if (!factors.ok()) return factors;
  return ScanChunks(params, records, on);
}

}  // namespace bole::cuda
