#include "worker_service/engine/draft_tails.h"

#include <algorithm>
#include <vector>

#include "common/status_macros.h"
#include "worker_service/engine/round_shape.h"

namespace bole {
namespace {

int TailOf(const SequencePlan& sequence) {
  return static_cast<int>(sequence.draft_tail.size());
}

}  // namespace

int NumDrafted(std::span<const SequencePlan* const> sequences) {
  const auto first = std::find_if(
      sequences.begin(), sequences.end(),
      [](const SequencePlan* sequence) { return sequence->skips_drafter; });
  return static_cast<int>(first - sequences.begin());
}

DraftTails::DraftTails(const SequenceMemory& memory, OperatorSet& operators,
                       MtpLayer& layer, const Capacity& capacity,
                       DeviceArrays& arrays)
    : memory_(memory),
      operators_(operators),
      layer_(layer),
      capacity_(capacity) {
  TransferBlock sizes;
  Bind(capacity.max_requests, capacity.max_rows, sizes);
  block_ = TransferBlock(sizes.used(), /*num_images=*/1, "draft tails", arrays);
}

void DraftTails::Bind(int requests, int rows, TransferBlock& block) {
  block.Clear();
  rows_.Bind({.max_requests = requests,
              .max_rows = rows,
              .mask_words = 0,
              .max_pages = capacity_.max_pages},
             block);
  hidden_row_ = block.Take<int32_t>(rows);
}

absl::Status DraftTails::Keep(const Drafter::Committed& committed, int most) {
  return operators_.StoreHidden({.batch = committed.batch,
                                 .path = committed.path,
                                 .max_path_rows = committed.max_path_rows,
                                 .width = capacity_.hidden_size,
                                 .ring = kMaxDraftTail,
                                 .most = most,
                                 .hidden = committed.hidden,
                                 .kept = memory_.hidden});
}

size_t DraftTails::CountFitting(Sequences sequences) const {
  const size_t most =
      std::min<size_t>(sequences.size(), capacity_.max_requests);
  int rows = 0;
  for (size_t i = 0; i < most; ++i) {
    rows += TailOf(*sequences[i]);
    if (rows > capacity_.max_rows) return i;
  }
  return most;
}

absl::Status DraftTails::Queue(Sequences sequences, Activation* out) {
  HostRows rows;
  std::vector<HostSequence> memory;
  std::vector<int32_t> hidden_row;
  for (const SequencePlan* sequence : sequences) {
    // The drafter runs as if the tail were about to be committed: a drafter
    // slot pairs the hidden vector of a position with the token that follows.
    const int first = sequence->committed - TailOf(*sequence);
    rows.AddChain(sequence->draft_tail);
    memory.push_back({.slot = sequence->slot.value(),
                      .committed = first,
                      .pages = sequence->pages});
    const int slot = sequence->slot.value() * kMaxDraftTail;
    for (int p = first; p < sequence->committed; ++p) {
      hidden_row.push_back(slot + p % kMaxDraftTail);
    }
  }
  Bind(
      RequestBucket(static_cast<int>(sequences.size()), capacity_.max_requests),
      RowBucket(rows.num_rows(), capacity_.max_rows), block_);
  rows_.Fill(rows, memory);
  std::copy(hidden_row.begin(), hidden_row.end(), hidden_row_.host);
  BOLE_RETURN_IF_ERROR(block_.Upload(block_.used()));
  return layer_.Forward({.batch = rows_.batch(),
                         .token = rows_.token(),
                         .hidden = memory_.hidden,
                         .hidden_row = hidden_row_.device},
                        out);
}

}  // namespace bole
