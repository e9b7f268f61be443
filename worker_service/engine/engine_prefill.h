// The sizes and the arrays of a pass of prefill chunks.
#ifndef BOLE_WORKER_SERVICE_ENGINE_ENGINE_PREFILL_H_
#define BOLE_WORKER_SERVICE_ENGINE_ENGINE_PREFILL_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/draft_shape.h"
#include "common/step.h"
#include "kernels/tensor.h"
#include "worker_service/engine/drafter.h"
#include "worker_service/engine/engine.h"
#include "worker_service/engine/row_batch_buffer.h"
#include "worker_service/engine/sampling_buffer.h"
#include "worker_service/engine/transfer_block.h"

namespace bole {

// If the chunks share a forward with a forest, the forest's rows come first in
// the forward and in the head, so that operators that run for the forest alone
// find its rows at their usual place.
struct Engine::PrefillShape {
  int requests = 0;  // B, a bucket.
  int rows = 0;      // Rows for the chunks, a bucket.
  std::optional<DraftShape> draft = {};
  bool extends_drafter = false;  // The drafter sees the chunks.
  int forest_rows = 0;           // Nodes of the forest, if any: not a bucket.
  int forward_rows = 0;          // Rows for all, a bucket.
  // Rows that the head runs for: the forest's, and the last one of each chunk
  // that ends its prompt. A bucket, or 0 if no chunk ends its prompt: then
  // nothing is drawn for the chunks, and the token after each chunk is known to
  // the drafter.
  int head_rows = 0;
};

struct Engine::PrefillPass {
  PrefillShape shape = {};
  Sequences sequences() const { return planned; }
  RowCount forward_rows() const { return {counts.device, shape.forward_rows}; }
  RowCount head_rows() const { return {counts.DeviceFrom(1), shape.head_rows}; }
  const int32_t* num_drafted() const { return counts.DeviceFrom(2); }

  std::vector<const SequencePlan*> planned = {};  // In the plan last filled in.
  TransferBlock up = {}, down = {};
  RowArrays rows = {};       // All rows of the chunks.
  RowArrays last_rows = {};  // The last row of every chunk that ends its
                             // prompt; for log probabilities of prompts, rows
                             // that a token of the prompt follows.
  TransferArray<int32_t> counts = {};    // [3] forward_rows, head_rows,
                                         // chunks that the drafter sees.
  TransferArray<int32_t> head_row = {};  // [head_rows] rows of hidden_.
  SamplingBuffer sampling;
  std::optional<Drafter> drafter = {};  // A copy of the engine's.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_ENGINE_PREFILL_H_
