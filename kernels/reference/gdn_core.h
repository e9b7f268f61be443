#ifndef BOLE_KERNELS_REFERENCE_GDN_CORE_H_
#define BOLE_KERNELS_REFERENCE_GDN_CORE_H_

#include "common/thread_pool.h"
#include "kernels/gdn.h"

namespace bole::reference {

// The contracts are in kernels/gdn.h. A request's results do not depend, bit
// for bit, on the other requests.
void GdnVerify(const GdnCoreParams& params, ThreadPool& pool);

// REQUIRES: no request has more than one row.
void GdnDecode(const GdnCoreParams& params, ThreadPool& pool);

// Chunks end where committed + row is a multiple of 64. So a prompt that is cut
// at such positions gives the same bits as the whole prompt; cut elsewhere, it
// gives the same results up to rounding.
// REQUIRES: mask_words is 0.
void GdnPrefill(const GdnCoreParams& params, ThreadPool& pool);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_GDN_CORE_H_
