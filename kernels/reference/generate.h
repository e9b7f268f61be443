#ifndef BOLE_KERNELS_REFERENCE_GENERATE_H_
#define BOLE_KERNELS_REFERENCE_GENERATE_H_

#include "common/thread_pool.h"
#include "kernels/generate.h"
#include "kernels/reference/packed_matrix.h"

namespace bole::reference {

// REQUIRES: `matrix` has the rows and columns of the generator's part.
void Generate(const MatrixGenerator& generator, PackedMatrix& matrix,
              ThreadPool& pool);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_GENERATE_H_
