// A token of every request through full attention in one launch, for Hopper:
// bfloat16, heads of 256 dimensions, pages of whole tiles of 64 tokens.
#ifndef BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_H_
#define BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_H_

#include <cuda.h>

#include "absl/status/status.h"
#include "kernels/attention.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda {

struct AttentionDecodeArgs {
  CUtensorMap keys;  // As in TileArgs (attention_tiles.h).
  CUtensorMap values;
  AttentionDecodeParams p;
};

// Whether there is a kernel for the query heads of a KV head, and it is faster
// than the operators one by one: for few rows.
bool CanDecodeAttention(const AttentionDecodeParams& params, const Launch& on);

// REQUIRES: CanDecodeAttention(), and what the first lines say.
absl::Status LaunchAttentionDecode(const AttentionDecodeArgs& args,
                                   const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_H_
