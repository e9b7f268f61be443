#ifndef BOLE_KERNELS_REFERENCE_GDN_GATED_NORM_H_
#define BOLE_KERNELS_REFERENCE_GDN_GATED_NORM_H_

#include "common/thread_pool.h"
#include "kernels/gdn.h"

namespace bole::reference {

// The contract is in kernels/gdn.h. Every row is computed on its own.
void GdnGatedNorm(const GdnGatedNormParams& params, ThreadPool& pool);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_GDN_GATED_NORM_H_
