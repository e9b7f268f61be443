// Sampling parameters on their way to the device, and tokens on their way back.
#ifndef BOLE_WORKER_SERVICE_SAMPLING_BUFFER_H_
#define BOLE_WORKER_SERVICE_SAMPLING_BUFFER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/step.h"
#include "kernels/drafting.h"
#include "kernels/sampling.h"
#include "worker_service/device_arrays.h"
#include "worker_service/transfer_block.h"

namespace bole {

// The arrays of OperatorSet::Sample for one batch. Parameters are in a block
// that goes up, results in one that comes down.
class SamplingBuffer {
 public:
  // Allocation errors stick in `arrays`.
  SamplingBuffer(int max_rows, DeviceArrays& arrays);

  // The batch's capacity. There is room for so many emitted tokens, where that
  // is more than `rows`, so that what is laid next to the results has a place
  // that does not depend on `rows`.
  struct Size {
    int requests;
    int rows;
    int emitted_room = 0;
  };
  // Take the parameters and the results.
  void LayParameters(const Size& size, TransferBlock& up);
  void LayResults(TransferBlock& down);
  // Takes what few rounds need, biases and alternatives. REQUIRES: nothing else
  // is taken from the blocks after it.
  void LayOptional(TransferBlock& up, TransferBlock& down);
  // Bytes of the blocks that have to be copied for these sequences.
  using Sequences = std::span<const SequencePlan* const>;
  int64_t BytesUp(Sequences sequences) const;
  int64_t BytesDown(Sequences sequences) const;

  // Writes every sequence's parameters.
  // REQUIRES: plans that passed Validate(StepPlan), at most size.requests.
  void Fill(Sequences sequences);
  // For requests that draw nothing: what follows their rows.
  void SetNextTokens(std::span<const int32_t> tokens);

  // With the parts that this buffer holds; the rest is empty.
  SampleParams Params() const;

  const SamplingControl* control() const { return control_.device; }
  // With the paths of Params(), and the tokens they may still emit.
  void SetInputs(AdvanceRequestsParams& params) const;
  RowPath path() const { return {path_first_.device, path_row_}; }
  const int32_t* next_token() const { return next_token_.device; }

  // Emitted tokens, accepted drafts and length of the path (as `committed`) of
  // the sequences that were filled in, from an image of the block that came
  // down. A path ends before a row without a token, which is its
  // bad_logits_position, counted from the path's start.
  std::vector<SequenceResult> Results(const TransferBlock& down, int image,
                                      Sequences sequences) const;

 private:
  struct BlockSizes {
    int64_t usual = 0;  // Bytes before the optional.
    int64_t whole = 0;
  };

  Size size_ = {};
  BlockSizes up_, down_;
  int32_t* path_row_;
  TransferArray<SamplingControl> control_;
  TransferArray<int32_t> first_bias_, bias_token_, first_stop_, stop_token_;
  TransferArray<float> bias_;
  TransferArray<int32_t> next_token_;
  TransferArray<int32_t> path_first_, accepted_, emitted_, top_token_;
  TransferArray<float> logprob_, top_logprob_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_SAMPLING_BUFFER_H_
