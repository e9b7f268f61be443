// Full attention for one token of every request in one launch, on Hopper:
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

// Whether there is a kernel for this number of query heads per KV head, and it
// is faster than running the operators one by one, as it is for few rows.
bool CanDecodeAttention(const AttentionDecodeParams& params, const Launch& on);

// REQUIRES: CanDecodeAttention(), and the conditions at the top of this file.
absl::Status LaunchAttentionDecode(const AttentionDecodeArgs& args,
                                   const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_H_
