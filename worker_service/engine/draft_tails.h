// Shows the drafter committed tokens that it has not seen, because the rounds
// that committed them did not draft, or because their sequence continues from a
// checkpoint with other tokens than those that the drafter saw.
#ifndef BOLE_WORKER_SERVICE_ENGINE_DRAFT_TAILS_H_
#define BOLE_WORKER_SERVICE_ENGINE_DRAFT_TAILS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "common/step.h"
#include "kernels/operator_set.h"
#include "worker_service/engine/drafter.h"
#include "worker_service/engine/row_batch_buffer.h"
#include "worker_service/engine/transfer_block.h"
#include "worker_service/model/device_arrays.h"
#include "worker_service/model/mtp_layer.h"
#include "worker_service/model/sequence_memory.h"

namespace bole {

// The number of sequences that do not skip the drafter; they come first.
int NumDrafted(std::span<const SequencePlan* const> sequences);

// Runs passes of the MTP layer over the tails of some sequences. A pass does
// what Drafter::Extend() would have done round by round, with the hidden
// vectors that are kept in SequenceMemory::hidden, and leaves the same keys and
// values.
class DraftTails {
 public:
  // The sizes of a pass.
  struct Capacity {
    int hidden_size;
    int max_requests;
    int max_rows;  // At least kMaxDraftTail.
    int max_pages;
  };
  // Keeps references, whose objects must outlive it. `arrays` keeps allocation
  // errors. REQUIRES: memory.hidden is not null.
  DraftTails(const SequenceMemory& memory, OperatorSet& operators,
             MtpLayer& layer, const Capacity& capacity, DeviceArrays& arrays);

  // Queues an operator that keeps in each slot the hidden vectors of the tokens
  // that were just committed, at most the last `most` of them. Rounds that
  // draft keep one: a sequence that continues from a copy of the slot, with
  // another token than the drafter has seen, must show the drafter that
  // position again.
  absl::Status Keep(const Drafter::Committed& committed, int most);

  using Sequences = std::span<const SequencePlan* const>;

  // How many of the sequences, counted from the first, fit into one pass.
  size_t CountFitting(Sequences sequences) const;

  // Queues a pass over the sequences. `out` is [max_rows, H] and receives
  // results that nobody reads. REQUIRES: the sequences fit, have tails, and
  // passed Validate(StepPlan); a mark that was set after the previous pass has
  // been awaited.
  absl::Status Queue(Sequences sequences, Activation* out);

 private:
  void Bind(int requests, int rows, TransferBlock& block);

  const SequenceMemory& memory_;
  OperatorSet& operators_;
  MtpLayer& layer_;
  const Capacity capacity_;
  TransferBlock block_;
  RowArrays rows_;
  TransferArray<int32_t> hidden_row_;  // [N] rows of memory_.hidden.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_DRAFT_TAILS_H_
