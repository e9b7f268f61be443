// Requests to the simulated model, and what became of them.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_REQUESTS_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_REQUESTS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/step.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/jobs/token_stream.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {

inline std::vector<int32_t> RandomPrompt(std::mt19937& rng, int length) {
  std::vector<int32_t> prompt(length);
  for (int32_t& token : prompt) token = UniformInt(rng, 'a', 'z');
  return prompt;
}

// Greedy, as SimulatedOutput() is; with a number, as if it had been accepted.
inline std::unique_ptr<Request> MakeRequest(std::vector<int32_t> prompt,
                                            int max_tokens,
                                            TimePoint arrival = {}) {
  static std::atomic<uint64_t> num_made = 0;
  auto request = std::make_unique<Request>();
  request->job = JobId(++num_made);
  request->prompt = std::move(prompt);
  request->sampling.temperature = 0;
  request->sampling.max_tokens = max_tokens;
  request->arrival = arrival;
  request->stream = std::make_shared<TokenStream>([] {});
  return request;
}

// The client's side of a request.
struct Reader {
  std::shared_ptr<TokenStream> stream;
  std::vector<int32_t> tokens = {};
  std::string text = {};
  std::vector<EmittedToken> prompt_logprobs = {};  // As often as they came.
  std::optional<absl::StatusOr<Completion>> end = {};

  void Read() {
    TokenDelta delta = stream->Take();
    for (const EmittedToken& token : delta.tokens) {
      tokens.push_back(token.token);
    }
    text += delta.text;
    prompt_logprobs.insert(prompt_logprobs.end(), delta.prompt_logprobs.begin(),
                           delta.prompt_logprobs.end());
    if (delta.end) end = std::move(delta.end);
  }
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_REQUESTS_H_
