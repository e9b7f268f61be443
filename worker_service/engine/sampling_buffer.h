// The transfer of sampling parameters to the device, and of tokens back.
#ifndef BOLE_WORKER_SERVICE_ENGINE_SAMPLING_BUFFER_H_
#define BOLE_WORKER_SERVICE_ENGINE_SAMPLING_BUFFER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/step.h"
#include "kernels/drafting.h"
#include "kernels/sampling.h"
#include "worker_service/engine/transfer_block.h"
#include "worker_service/model/device_arrays.h"

namespace bole {

// The arrays of OperatorSet::Sample for one batch. Parameters are in a block
// that is uploaded, results in one that is downloaded.
class SamplingBuffer {
 public:
  // Allocation errors stick in `arrays`.
  SamplingBuffer(int max_rows, DeviceArrays& arrays);

  // The batch's capacity. If emitted_room is more than `rows`, room is reserved
  // for this many emitted tokens, so that the places of the arrays after the
  // results do not depend on `rows`.
  struct Size {
    int requests;
    int rows;
    int emitted_room = 0;
  };
  // Take the arrays of the parameters and of the results from the blocks.
  void BindParameters(const Size& size, TransferBlock& up);
  void BindResults(TransferBlock& down);
  // Takes the arrays that few rounds need: biases and alternative tokens.
  // REQUIRES: nothing else is taken from the blocks afterwards.
  void BindOptional(TransferBlock& up, TransferBlock& down);
  // The number of bytes of the blocks that have to be copied for these
  // sequences.
  using Sequences = std::span<const SequencePlan* const>;
  int64_t BytesUp(Sequences sequences) const;
  int64_t BytesDown(Sequences sequences) const;

  // Writes every sequence's parameters.
  // REQUIRES: plans that passed Validate(StepPlan), at most size.requests.
  void Fill(Sequences sequences);
  // For requests that draw no token: the tokens that follow their rows.
  void SetNextTokens(std::span<const int32_t> tokens);

  // Parameters that point to the arrays of this buffer; the rest is empty.
  SampleParams Params() const;

  const SamplingControl* control() const { return control_.device; }
  // Sets the paths of Params() and the parameters that limit what may still be
  // emitted.
  void SetInputs(AdvanceRequestsParams& params) const;
  RowPath path() const { return {path_first_.device, path_row_}; }
  const int32_t* next_token() const { return next_token_.device; }

  // The results of the sequences that were filled in, but for proposals, from
  // an image of the downloaded block. `committed` has the tokens that each had
  // committed before its path. A path ends before the first row without a
  // token, whose position becomes bad_logits_position.
  std::vector<SequenceResult> Results(const TransferBlock& down, int image,
                                      Sequences sequences,
                                      std::span<const int32_t> committed) const;

 private:
  struct BlockSizes {
    int64_t usual = 0;  // Bytes before the optional arrays.
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

#endif  // BOLE_WORKER_SERVICE_ENGINE_SAMPLING_BUFFER_H_
