// Requests whose text is known, because a simulated worker answers them.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_ASKED_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_ASKED_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/simulated_worker.h"

namespace bole::testing {

struct Asked {
  std::vector<int32_t> prompt;
  int max_tokens;
  Reader reader;
};

// Reads a request that has ended. Its tokens are the first of those that the
// model says, and all of them if it ended well. Returns whether it did.
inline bool ExpectModelsText(Asked& asked) {
  Reader& reader = asked.reader;
  reader.Read();
  EXPECT_TRUE(reader.end.has_value());
  const std::vector<int32_t> want =
      SimulatedOutput(asked.prompt, asked.max_tokens);
  const bool ended_well = reader.end && reader.end->ok();
  EXPECT_LE(reader.tokens.size(), want.size());
  if (ended_well) {
    EXPECT_EQ(reader.tokens.size(), want.size());
  }
  const size_t count = std::min(reader.tokens.size(), want.size());
  EXPECT_TRUE(
      std::equal(want.begin(), want.begin() + count, reader.tokens.begin()));
  return ended_well;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_ASKED_H_
