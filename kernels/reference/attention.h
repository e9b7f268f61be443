#ifndef BOLE_KERNELS_REFERENCE_ATTENTION_H_
#define BOLE_KERNELS_REFERENCE_ATTENTION_H_

#include "common/thread_pool.h"
#include "kernels/attention.h"

namespace bole::reference {

// The contracts are in kernels/attention.h. A row's sums run over the KV
// indices in order, so its bits do not depend on the rows beside it.
void PrepareQkv(const QkvParams& params, ThreadPool& pool);
void Attend(const AttentionParams& params, ThreadPool& pool);
void CompactKv(const CompactKvParams& params);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_ATTENTION_H_
