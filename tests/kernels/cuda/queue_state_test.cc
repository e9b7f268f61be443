// Callers' rules for what overlaps. Needs no GPU.
#include "kernels/cuda/queue_state.h"

#include "gtest/gtest.h"

namespace bole::cuda {
namespace {

TEST(QueueStateTest, WhatIsKeptIsReadBehindABarrierOnly) {
  QueueState state;
  state.ReadKept();  // Nothing has been written.
  state.WriteKept();
  EXPECT_DEATH(state.ReadKept(), "is_settled");
  state.QueueMark();  // Lets the next kernel start as before.
  EXPECT_DEATH(state.ReadKept(), "is_settled");

  state.Barrier();
  state.ReadKept();
  state.ReadKept();

  state.WriteKept();
  state.QueueCopy();
  state.ReadKept();
}

TEST(QueueStateTest, GraphsBeginAndEndWithBarriers) {
  QueueState state;
  state.WriteKept();
  state.BeginCapture();
  state.ReadKept();
  state.WriteKept();
  EXPECT_DEATH(state.ReadKept(), "is_settled");
  state.EndCapture();
  state.ReadKept();
}

TEST(QueueStateTest, ACaptureTakesNoCopiesAndNoMarks) {
  QueueState state;
  state.BeginCapture();
  EXPECT_DEATH(state.QueueCopy(), "is_capturing");
  EXPECT_DEATH(state.QueueMark(), "is_capturing");
  state.EndCapture();
  state.QueueCopy();
  state.QueueMark();
}

}  // namespace
}  // namespace bole::cuda
