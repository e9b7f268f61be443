// Sampling parameters on their way to the device, and tokens on their way back.
#ifndef BOLE_WORKER_SERVICE_SAMPLING_BUFFER_H_
#define BOLE_WORKER_SERVICE_SAMPLING_BUFFER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/step.h"
#include "kernels/backend.h"
#include "worker_service/device_arrays.h"

namespace bole {

// Memory for the sampling of one batch, allocated once.
class SamplingBuffer {
 public:
  // Allocation errors stick in `arrays`.
  SamplingBuffer(Backend& backend, int max_requests, int max_rows,
                 DeviceArrays& arrays);

  // Queues the copy of every sequence's parameters.
  // REQUIRES: plans that passed Validate(StepPlan), at most max_requests.
  absl::Status Upload(std::span<const SequencePlan* const> sequences);

  // With the parts that this buffer holds; the rest is empty.
  SampleParams Params() const;

  const SamplingControl* control() const { return control_; }
  RowPath path() const { return {path_first_, path_row_}; }
  const int32_t* next_token() const { return next_token_; }
  // For requests that draw nothing: what follows their rows.
  absl::Status SetNextTokens(const std::vector<int32_t>& tokens);

  // Emitted tokens, accepted drafts and committed + path length of each
  // sequence. Waits for the device.
  absl::StatusOr<std::vector<SequenceResult>> Download(
      std::span<const SequencePlan* const> sequences);

 private:
  EmittedToken TokenAt(int entry, int num_top) const;

  Backend* backend_;
  int max_requests_;
  SamplingControl* control_;
  int32_t* first_bias_;
  int32_t* bias_token_;
  float* bias_;
  int32_t* first_stop_;
  int32_t* stop_token_;
  int32_t* path_first_;
  int32_t* path_row_;
  int32_t* emitted_;
  float* logprob_;
  int32_t* top_token_;
  float* top_logprob_;
  int32_t* accepted_;
  int32_t* next_token_;
  // Host images of the last download.
  std::vector<int32_t> host_emitted_, host_top_token_;
  std::vector<float> host_logprob_, host_top_logprob_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_SAMPLING_BUFFER_H_
