#ifndef BOLE_KERNELS_REFERENCE_GDN_CONV_H_
#define BOLE_KERNELS_REFERENCE_GDN_CONV_H_

#include "common/thread_pool.h"
#include "kernels/gdn.h"

namespace bole::reference {

// The contract is in kernels/gdn.h. The taps are added oldest first, so a
// row's bits depend on its own path alone.
void GdnConv(const GdnConvParams& params, ThreadPool& pool);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_GDN_CONV_H_
