// The topology of a forward pass, and its transfer to the device.
#ifndef BOLE_WORKER_SERVICE_ENGINE_ROW_BATCH_BUFFER_H_
#define BOLE_WORKER_SERVICE_ENGINE_ROW_BATCH_BUFFER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/packed_forest.h"
#include "kernels/drafting.h"
#include "kernels/row_batch.h"
#include "worker_service/engine/transfer_block.h"
#include "worker_service/model/device_arrays.h"

namespace bole {

// The rows of a forward pass as the host describes them; see RowBatch for their
// meaning.
struct HostRows {
  std::vector<int32_t> first_row = {0};
  std::vector<int32_t> request, node, parent, depth, token;
  int mask_words = 0;
  std::vector<uint32_t> ancestors;  // [N, mask_words]

  // Appends a request: a chain of `tokens`.
  void AddChain(std::span<const int32_t> tokens);
  int num_rows() const { return static_cast<int>(token.size()); }
};

// The forest's nodes as rows.
HostRows RowsOf(const PackedForest& forest);

// The memory of a request.
struct HostSequence {
  int32_t slot;
  int32_t committed;
  std::span<const PageId> pages;
};

struct RowBatchCapacity {
  int max_requests;
  int max_rows;
  int mask_words;
  int max_path = 0;  // As in RowBatch.
  int max_pages;     // Per request.
  // If this is more than max_rows, room is reserved for this many tokens and
  // parents, so that the places of the arrays after them do not depend on
  // max_rows.
  int token_room = 0;
};

// The arrays of one RowBatch, and the rows' tokens, in a transfer block.
class RowArrays {
 public:
  // Takes the arrays from the block. The capacity is that of the batch.
  void Bind(const RowBatchCapacity& capacity, TransferBlock& block) {
    BindRequests(capacity, block);
    BindRows(block);
  }
  // The same in two parts. The places of the first part depend only on
  // max_requests, max_pages and token_room.
  void BindRequests(const RowBatchCapacity& capacity, TransferBlock& block);
  void BindRows(TransferBlock& block);

  // Writes the host's side. REQUIRES: rows and sequences are within the
  // capacity, as Validate(StepPlan) ensures.
  void Fill(const HostRows& rows, std::span<const HostSequence> sequences);

  // The device's side, null before Bind() and in a block without memory.
  const RowBatch& batch() const { return batch_; }
  const int32_t* token() const { return token_.device; }
  // 0, 1, 2, ...: the path of a batch whose rows are all committed.
  RowPath all_rows() const { return {batch_.first_row, all_rows_.device}; }

  // For operators that write the next rows to these arrays.
  int32_t* committed() { return committed_.device; }
  void SetOutputs(SelectForestParams& params) const;

  // The number of bytes that Forest() reads, if these arrays are the first of
  // their block.
  int64_t forest_bytes() const { return forest_bytes_; }
  // The rows in an image of the block, as a forest of `num_requests` trees.
  // REQUIRES: an operator wrote the rows.
  PackedForest Forest(const TransferBlock& block, int image,
                      int num_requests) const;

 private:
  RowBatchCapacity capacity_ = {};
  int64_t forest_bytes_ = 0;
  TransferArray<int32_t> count_, first_row_, request_, node_, parent_, depth_,
      slot_, committed_, page_table_, token_, all_rows_;
  TransferArray<uint32_t> ancestors_;
  RowBatch batch_ = {};
};

// RowArrays with memory of their own, which is allocated once and filled for
// every forward pass with one copy.
class RowBatchBuffer {
 public:
  RowBatchBuffer(const RowBatchCapacity& capacity, std::string_view what,
                 DeviceArrays& arrays);

  // Queues the copy. REQUIRES: as RowArrays::Fill().
  absl::Status Upload(const HostRows& rows,
                      std::span<const HostSequence> sequences);

  const RowBatch& batch() const { return rows_.batch(); }
  const int32_t* token() const { return rows_.token(); }
  RowPath all_rows() const { return rows_.all_rows(); }

 private:
  TransferBlock block_;
  RowArrays rows_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_ROW_BATCH_BUFFER_H_
