#ifndef BOLE_KERNELS_REFERENCE_DENSE_H_
#define BOLE_KERNELS_REFERENCE_DENSE_H_

#include "common/thread_pool.h"
#include "kernels/dense.h"
#include "kernels/draft_inputs.h"

namespace bole::reference {

// The contracts are in kernels/dense.h. Every row is computed on its own.
void Embed(const EmbedParams& params);
void RmsNorm(const RmsNormParams& params);
void DraftInputs(const DraftInputsParams& params);
void MatMul(const MatMulParams& params, ThreadPool& pool);
void SiluMul(const SiluMulParams& params, ThreadPool& pool);
void GatherRows(const GatherRowsParams& params);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_DENSE_H_
