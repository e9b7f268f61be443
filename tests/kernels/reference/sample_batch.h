// Requests for the sampler, packed into one call, and the answer unpacked.
#ifndef BOLE_TESTS_KERNELS_REFERENCE_SAMPLE_BATCH_H_
#define BOLE_TESTS_KERNELS_REFERENCE_SAMPLE_BATCH_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "common/packed_forest.h"
#include "common/thread_pool.h"
#include "kernels/sampling.h"

namespace bole::testing {

// Draws from the model's own distribution.
inline SamplingControl PlainControl(uint64_t seed) {
  return {.seed = seed,
          .temperature = 1,
          .top_k = 0,
          .top_p = 1,
          .min_p = 0,
          .presence_penalty = 0,
          .frequency_penalty = 0,
          .repetition_penalty = 1,
          .prompt_length = 0,
          .max_tokens = 1 << 20,
          .min_tokens = 0,
          .top_logprobs = 0};
}

struct SampledRequest {
  NodeList nodes;
  std::vector<std::vector<float>> logits;  // [T, V]
  SamplingControl control;
  std::vector<std::pair<int32_t, float>> bias;
  std::vector<int32_t> stop;
  int32_t slot = 0;
  int32_t committed = 1;
};

struct SampledVisit {
  int32_t node;  // Row within the request.
  int32_t token;
  float logprob;
  std::vector<std::pair<int32_t, float>> top;

  friend bool operator==(const SampledVisit&, const SampledVisit&) = default;
};

struct SampledPath {
  std::vector<SampledVisit> visits;
  int32_t accepted = 0;
  int32_t next_token = 0;

  std::vector<int32_t> tokens() const {
    std::vector<int32_t> tokens;
    for (const SampledVisit& visit : visits) tokens.push_back(visit.token);
    return tokens;
  }
};

// A batch whose capacities exceed its content by kSpare requests and rows.
// Every output begins as kUntouched.
class SampleBatch {
 public:
  static constexpr int kSpare = 2;
  static constexpr int32_t kUntouched = -7777;

  // `counts` [slots, V] outlives this.
  SampleBatch(const std::vector<SampledRequest>& requests, int vocabulary,
              int num_valid_tokens, std::vector<int32_t>& counts);
  // params() points into this.
  SampleBatch(const SampleBatch&) = delete;
  SampleBatch& operator=(const SampleBatch&) = delete;

  const SampleParams& params() const { return params_; }
  CountTokensParams count_params() const;
  // The outputs of a finished call.
  std::vector<SampledPath> Unpack() const;
  // Samples on one thread. Fails the test if anything beyond what the contract
  // names was written.
  std::vector<SampledPath> Run();
  std::vector<SampledPath> Run(ThreadPool& pool);
  // The same check after a call elsewhere.
  void ExpectSpareUntouched() const;

  std::vector<int32_t> path_first, path_row, emitted, top_token, accepted,
      next_token;
  std::vector<float> logprob, top_logprob;

 private:
  void SetInputs(const std::vector<SampledRequest>& requests);
  void SetOutputs(int num_requests, int num_rows);

  int num_requests_;
  int num_rows_;
  PackedForest forest_;
  std::vector<int32_t> node_, slot_, committed_;
  std::vector<float> logits_;
  std::vector<SamplingControl> control_;
  std::vector<int32_t> first_bias_, bias_token_, first_stop_, stop_token_;
  std::vector<float> bias_;
  SampleParams params_;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_REFERENCE_SAMPLE_BATCH_H_
