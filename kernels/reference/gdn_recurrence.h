// Eq. 1 on one head: the definition that decoding, serial verification and
// commit share, so that their states agree bit for bit.
#ifndef BOLE_KERNELS_REFERENCE_GDN_RECURRENCE_H_
#define BOLE_KERNELS_REFERENCE_GDN_RECURRENCE_H_

#include "kernels/reference/gdn_views.h"

namespace bole::reference {

// What a row reads out of the state it leaves behind.
struct Readout {
  const float* q;  // [key_dim], not scaled.
  float q_scale;
  float* out;  // [value_dim]
};

// Advances `state` [value_dim, key_dim] of value head `head` by one row, and
// reads it out if `readout` is set. The state's bits do not depend on the
// readout.
void StepHead(const GdnFactorRows& factors, int row, int head,
              const Readout* readout, float* state);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_GDN_RECURRENCE_H_
