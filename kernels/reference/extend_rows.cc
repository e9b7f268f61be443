#include "kernels/reference/extend_rows.h"

#include <algorithm>

namespace bole::reference {

void ExtendRows(const ExtendRowsParams& p) {
  const int extended = std::min(*p.num_extended, p.max_requests);
  for (int b = 0; b < p.max_requests; ++b) {
    const int32_t first = p.path.first[b];
    const int32_t end = b < extended ? p.path.first[b + 1] : first;
    for (int32_t i = first; i < end; ++i) {
      const bool is_last = i == end - 1;
      p.request[i] = b;
      p.node[i] = i - first;
      p.parent[i] = i - first - 1;
      p.row_token[i] =
          is_last ? std::max(p.next_token[b], 0) : p.token[p.path.row[i + 1]];
      p.hidden_row[i] = p.path.row[i];
    }
    p.next_committed[b] = p.committed[b] + (end - first);
    if (end > first) p.last_row[b] = end - 1;
  }
  *p.num_rows = p.path.first[extended];
}

}  // namespace bole::reference
