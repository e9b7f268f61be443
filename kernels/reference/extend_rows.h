#ifndef BOLE_KERNELS_REFERENCE_EXTEND_ROWS_H_
#define BOLE_KERNELS_REFERENCE_EXTEND_ROWS_H_

#include "kernels/drafting.h"

namespace bole::reference {

// The contract is in kernels/drafting.h. Extend row i takes the hidden vector
// of path.row[i], and path.first is the first_row of the extend batch. The
// last_row of a request with an empty path keeps its value. REQUIRES: the
// paths have at most max_rows rows.
void ExtendRows(const ExtendRowsParams& params);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_EXTEND_ROWS_H_
