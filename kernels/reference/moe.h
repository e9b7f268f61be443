#ifndef BOLE_KERNELS_REFERENCE_MOE_H_
#define BOLE_KERNELS_REFERENCE_MOE_H_

#include "common/thread_pool.h"
#include "kernels/dense.h"

namespace bole::reference {

// The contract is in kernels/dense.h. A row's experts are added in the order of
// their numbers, so its bits do not depend on the rows beside it.
void Moe(const MoeParams& params, ThreadPool& pool);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_MOE_H_
