// Where the tokens that two sequences share end within a page, or between two.
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker_service/engine/checkpoint_driver.h"
#include "tests/worker_service/engine/checkpoint_fixture.h"

namespace bole::testing_support {
namespace {

class EngineBoundaryTest : public CheckpointTest {};
BOLE_FOR_EACH_CHECKPOINT_MODEL(EngineBoundaryTest);

// From every position within a page and between two, where both prefills are
// cut: the tokens before it determine all that is shared. Pages hold NaN where
// nothing was written, and are copied only where tokens begin one.
TEST_P(EngineBoundaryTest, EveryPositionIsABoundary) {
  constexpr int kPageSize = 8;
  const std::vector<int32_t> text = Text(60, 1);
  CheckpointDriver cached = NewDriver(kPageSize);
  CheckpointDriver fresh = NewDriver(kPageSize);
  for (int length = 1; length <= 3 * kPageSize; ++length) {
    SCOPED_TRACE(length);
    cached.FillPages(static_cast<char>(0xff));
    cached.Begin(0, text, Greedy());
    cached.AddChunk(0, length);
    cached.Run(kTree);
    const LeftCheckpoint from = cached.Leave(0, 0);
    const std::vector<int32_t> prompt = Continued(text, length, 2, 40);
    fresh.Begin(0, prompt, Greedy());
    fresh.AddChunk(0, length);
    fresh.Run(kTree);

    cached.Begin(1, prompt, Greedy(), from);
    EXPECT_EQ(cached.num_page_copies(), length % kPageSize == 0 ? 0 : 1);

    EXPECT_EQ(cached.Prefill(1), fresh.Prefill(0));
    ExpectSameRounds(cached, 1, fresh, 0);
    // Who left it goes on in the pages that are shared.
    fresh.Begin(0, text, Greedy());
    fresh.AddChunk(0, length);
    fresh.Run(kTree);
    EXPECT_EQ(cached.Prefill(0), fresh.Prefill(0));
    ExpectSameContent(cached, 0, fresh, 0);
  }
}

}  // namespace
}  // namespace bole::testing_support
