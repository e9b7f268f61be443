// The operators of kernels/backend.h as launches on a stream.
//
// Each one queues its work and returns. It returns an error of the launch; an
// error of the execution is returned by the next copy to the host. Activations
// are of `type`.
#ifndef BOLE_KERNELS_CUDA_OPERATORS_H_
#define BOLE_KERNELS_CUDA_OPERATORS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "cuda_runtime_api.h"
#include "kernels/attention.h"
#include "kernels/dense.h"
#include "kernels/drafting.h"
#include "kernels/gdn.h"
#include "kernels/generate.h"
#include "kernels/sampling.h"
#include "kernels/tensor.h"

namespace bole::cuda {

struct CutLogits;  // sampling/cut_logits.h

// Where an operator runs.
struct Launch {
  ElementType type;
  cudaStream_t stream;
  bool overlaps = false;   // A kernel may start before the previous one ends.
  bool is_hopper = false;  // The GPU runs code compiled for sm_90a.
  // The most shared memory that a block may use.
  int shared_bytes = 0;
  int multiprocessors = 0;
};

// Dense operators, except the products (matmul.h) and Moe.
absl::Status RmsNorm(const RmsNormParams& params, const Launch& on);
absl::Status SiluMul(const SiluMulParams& params, const Launch& on);
absl::Status GatherRows(const GatherRowsParams& params, const Launch& on);
// `table`: [V, width] elements.
absl::Status Embed(const EmbedParams& params, const void* table, int width,
                   const Launch& on);

// out: [rows, columns] elements.
absl::Status Generate(const MatrixGenerator& generator, void* out,
                      const Launch& on);

// Gated DeltaNet.
absl::Status GdnConv(const GdnConvParams& params, const Launch& on);
// scratch: GdnVerifyScratchBytes(); most of the kernels need none.
size_t GdnVerifyScratchBytes(const GdnCoreParams& params, const Launch& on);
absl::Status GdnVerify(const GdnCoreParams& params, void* scratch,
                       const Launch& on);
absl::Status GdnDecode(const GdnCoreParams& params, const Launch& on);
// scratch: GdnPrefillScratchBytes(), which grow with the capacity of rows.
size_t GdnPrefillScratchBytes(const GdnCoreParams& params, const Launch& on);
absl::Status GdnPrefill(const GdnCoreParams& params, void* scratch,
                        const Launch& on);
absl::Status GdnGatedNorm(const GdnGatedNormParams& params, const Launch& on);
absl::Status GdnCommitStates(const GdnCommitParams& params, const Launch& on);
absl::Status GdnCommitWindows(const GdnCommitParams& params, const Launch& on);
absl::Status GdnDecodeLayer(const GdnDecodeLayerParams& params,
                            const Launch& on);

// Full attention.
absl::Status PrepareQkv(const QkvParams& params, const Launch& on);
absl::Status Attend(const AttentionParams& params, const Launch& on);
absl::Status CompactKv(const CompactKvParams& params, const Launch& on);

// Sampling. scratch: as many bytes as the preceding function returns.
size_t SampleScratchBytes(const SampleParams& params, int num_ranks);
absl::Status Sample(const SampleParams& params, const CutLogits& logits,
                    void* scratch, const Launch& on);
absl::Status CountTokens(const CountTokensParams& params, const Launch& on);
absl::Status OutputToPrompt(const OutputToPromptParams& params,
                            const Launch& on);

// Drafting.
absl::Status StoreHidden(const StoreHiddenParams& params, const Launch& on);
absl::Status ExtendRows(const ExtendRowsParams& params, const Launch& on);
size_t TopKScratchBytes(const TopKParams& params, int num_ranks);
absl::Status TopK(const TopKParams& params, const CutLogits& logits,
                  void* scratch, const Launch& on);
absl::Status GrowTrees(const GrowTreesParams& params, const Launch& on);
absl::Status AdvanceRequests(const AdvanceRequestsParams& params,
                             const Launch& on);
size_t SelectForestScratchBytes(int max_requests);
absl::Status SelectForest(const SelectForestParams& params, void* scratch,
                          const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_OPERATORS_H_
