// Shows the drafter committed tokens that it has not seen, because the rounds
// that committed them did not draft, or because their sequence goes on from a
// checkpoint in another way than the one that it saw.
#ifndef BOLE_WORKER_SERVICE_DRAFT_TAILS_H_
#define BOLE_WORKER_SERVICE_DRAFT_TAILS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "common/step.h"
#include "kernels/operator_set.h"
#include "worker_service/device_arrays.h"
#include "worker_service/drafter.h"
#include "worker_service/model/mtp_layer.h"
#include "worker_service/row_batch_buffer.h"
#include "worker_service/sequence_memory.h"
#include "worker_service/transfer_block.h"

namespace bole {

// How many of the sequences do not skip the drafter: the first ones.
int NumDrafted(std::span<const SequencePlan* const> sequences);

// One pass of the MTP layer over the tails of some sequences. It does what
// Drafter::Extend() would have done round by round, with hidden vectors that
// SequenceMemory::hidden has kept, and leaves the same keys and values.
class DraftTails {
 public:
  // Of a pass.
  struct Capacity {
    int hidden_size;
    int max_requests;
    int max_rows;  // At least kMaxDraftTail.
    int max_pages;
  };
  // Holds references, which must outlive it. Allocation errors stick in
  // `arrays`. REQUIRES: memory.hidden.
  DraftTails(const SequenceMemory& memory, OperatorSet& operators,
             MtpLayer& layer, const Capacity& capacity, DeviceArrays& arrays);

  // Queues that the slots keep the hidden vectors of what has just been
  // committed, of at most the last `most` tokens of each. Those of rounds that
  // draft keep one: whoever goes on from a copy of the slot, with another token
  // than the drafter has seen, shows it that position anew.
  absl::Status Keep(const Drafter::Committed& committed, int most);

  using Sequences = std::span<const SequencePlan* const>;

  // How many of the sequences fit into one pass, the first ones.
  size_t CountFitting(Sequences sequences) const;

  // Queues a pass over them; `out` takes what nobody reads. [max_rows, H]
  // REQUIRES: they fit, have tails, and passed Validate(StepPlan); the pass
  //     before has passed a mark.
  absl::Status Queue(Sequences sequences, Activation* out);

 private:
  void Lay(int requests, int rows, TransferBlock& block);

  const SequenceMemory& memory_;
  OperatorSet& operators_;
  MtpLayer& layer_;
  const Capacity capacity_;
  TransferBlock block_;
  RowArrays rows_;
  TransferArray<int32_t> hidden_row_;  // [N] of memory_.hidden.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_DRAFT_TAILS_H_
