#ifndef BOLE_KERNELS_REFERENCE_GDN_COMMIT_H_
#define BOLE_KERNELS_REFERENCE_GDN_COMMIT_H_

#include "common/thread_pool.h"
#include "kernels/gdn.h"

namespace bole::reference {

// The contracts are in kernels/gdn.h. A request without rows in the path keeps
// its slot as it is. Call either before committed counts the path's rows.
void GdnCommitStates(const GdnCommitParams& params, ThreadPool& pool);
void GdnCommitWindows(const GdnCommitParams& params, ThreadPool& pool);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_GDN_COMMIT_H_
