// The topology of a forward, on its way to the device.
#ifndef BOLE_WORKER_SERVICE_ROW_BATCH_BUFFER_H_
#define BOLE_WORKER_SERVICE_ROW_BATCH_BUFFER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/packed_forest.h"
#include "kernels/backend.h"
#include "kernels/row_batch.h"
#include "worker_service/device_arrays.h"

namespace bole {

// Rows of a forward as the host states them; see RowBatch for the meaning.
struct HostRows {
  std::vector<int32_t> first_row = {0};
  std::vector<int32_t> request, node, parent, depth, token;
  int mask_words = 0;
  std::vector<uint32_t> ancestors;  // [N, mask_words]

  // One more request: a chain of `tokens`.
  void AddChain(std::span<const int32_t> tokens);
  int num_rows() const { return static_cast<int>(token.size()); }
};

// The forest's nodes as rows.
HostRows RowsOf(const PackedForest& forest);

// Where a request's memory is.
struct HostSequence {
  int32_t slot;
  int32_t committed;
  std::span<const PageId> pages;
};

struct RowBatchCapacity {
  int max_requests;
  int max_rows;
  int mask_words;
  int max_pages;  // Per request.
};

// Device memory for one RowBatch and the rows' tokens: allocated once, filled
// every round with one copy.
class RowBatchBuffer {
 public:
  RowBatchBuffer(Backend& backend, const RowBatchCapacity& capacity,
                 std::string_view what, DeviceArrays& arrays);

  // Queues the copy. REQUIRES: rows and sequences within the capacity, as
  // Validate(StepPlan) ensures.
  absl::Status Upload(const HostRows& rows,
                      std::span<const HostSequence> sequences);

  const RowBatch& batch() const { return batch_; }
  const int32_t* token() const { return token_; }
  // 0, 1, 2, ...: the path of a batch all of whose rows are committed.
  RowPath all_rows() const { return {batch_.first_row, all_rows_}; }

 private:
  int32_t* Take(int64_t count);

  Backend* backend_;
  RowBatchCapacity capacity_;
  std::vector<int32_t> host_;  // The image of device_.
  int32_t* device_ = nullptr;
  int64_t used_ = 0;
  RowBatch batch_;
  const int32_t* token_ = nullptr;
  const int32_t* all_rows_ = nullptr;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ROW_BATCH_BUFFER_H_
