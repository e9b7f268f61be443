#include "kernels/reference/advance_requests.h"

#include <algorithm>
#include <cstdint>

namespace bole::reference {

void AdvanceRequests(const AdvanceRequestsParams& p) {
  for (int b = 0; b < p.max_requests; ++b) {
    const int32_t length = p.path.first[b + 1] - p.path.first[b];
    const int32_t* stops_end = p.stop_token + p.first_stop[b + 1];
    const bool stopped = std::find(p.stop_token + p.first_stop[b], stops_end,
                                   p.next_token[b]) != stops_end;
    p.committed[b] += length;
    int32_t& left = p.control[b].max_tokens;
    left -= length;
    const bool ended =
        length == 0 || p.next_token[b] == kNoToken || stopped || left <= 0;
    p.node_limit[b] = ended ? 0 : std::max(p.max_context - p.committed[b], 0);
    p.depth_limit[b] = std::max(left, 0);
  }
}

}  // namespace bole::reference
