// Answers that go on from what a request resumes, and that break off.
#ifndef BOLE_TESTS_CLIENTS_SDK_PLAYED_ANSWER_H_
#define BOLE_TESTS_CLIENTS_SDK_PLAYED_ANSWER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/bole.pb.h"
#include "tests/clients/fake_bole_service.h"

namespace bole::testing_support {

inline constexpr int kTokens = 12;  // Of each choice.

// Token `i` of a text that its seed decides.
inline uint32_t TokenOf(uint64_t seed, size_t i) {
  return static_cast<uint32_t>((seed * 31 + i * 7) % 1000);
}

inline std::string TextOf(uint64_t seed) {
  std::string text;
  for (int i = 0; i < kTokens; ++i)
    absl::StrAppend(&text, TokenOf(seed, i), "|");
  return text;
}

// A scheduler in small: two tokens a chunk, choices in turn, each from what is
// resumed of it. The text lags a byte behind its tokens. After `chunks` chunks
// the stream breaks.
inline FakeAnswer Play(const v1::GenerateRequest& request, int chunks) {
  FakeAnswer answer;
  const uint32_t n = request.has_n() ? request.n() : 1;
  const uint64_t seed = request.sampling_params().seed();
  std::vector<std::string> held(n);
  for (int step = 0; step <= kTokens; step += 2) {
    for (uint32_t c = 0; c < n; ++c) {
      const v1::ResumedChoice had =
          request.resume_size() > 0 ? request.resume(c) : v1::ResumedChoice();
      const int start = had.output_ids_size() + step;
      if (had.complete() || start > kTokens) continue;
      if (static_cast<int>(answer.responses.size()) == chunks) {
        answer.status = {grpc::StatusCode::UNAVAILABLE, "gone"};
        return answer;
      }
      v1::GenerateResponse& response = answer.responses.emplace_back();
      if (start == kTokens) {
        response.mutable_complete()->set_index(c);
        response.mutable_complete()->set_seed(seed + c);
        continue;
      }
      v1::GenerateChunk& chunk = *response.mutable_chunk();
      chunk.set_index(c);
      if (step == 0 && start > 0) held[c] = "|";
      std::string text = held[c];
      for (int i = start; i < std::min(start + 2, kTokens); ++i) {
        chunk.add_token_ids(TokenOf(seed + c, i));
        absl::StrAppend(&text, TokenOf(seed + c, i), "|");
      }
      const bool last = start + 2 >= kTokens;
      held[c] = last ? "" : "|";
      chunk.set_text(last ? text : text.substr(0, text.size() - 1));
    }
  }
  return answer;
}

}  // namespace bole::testing_support

#endif  // BOLE_TESTS_CLIENTS_SDK_PLAYED_ANSWER_H_
