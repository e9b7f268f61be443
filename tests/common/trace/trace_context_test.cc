#include "common/trace/trace_context.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace bole {
namespace {

// The example of the standard.
constexpr char kExample[] =
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContextTest, ReadsAndWritesTheHeader) {
  const auto context = ParseTraceparent(kExample);
  ASSERT_TRUE(context);
  EXPECT_EQ(ToHex(context->trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(ToHex(context->span_id), "00f067aa0ba902b7");
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(ToTraceparent(*context), kExample);
}

TEST(TraceContextTest, OfTheFlagsOnlyTheLastSaysSampled) {
  const std::string ids(kExample, 53);
  EXPECT_FALSE(ParseTraceparent(ids + "00")->sampled);
  EXPECT_FALSE(ParseTraceparent(ids + "fe")->sampled);
  EXPECT_TRUE(ParseTraceparent(ids + "ff")->sampled);
}

TEST(TraceContextTest, ALaterVersionMaySayMore) {
  const std::string later = "cc" + std::string(kExample + 2);
  EXPECT_TRUE(ParseTraceparent(later));
  EXPECT_TRUE(ParseTraceparent(later + "-what-the-future-brings"));
  EXPECT_FALSE(ParseTraceparent(later + ".what"));
  EXPECT_FALSE(ParseTraceparent(later + "0"));
}

TEST(TraceContextTest, WhatBreaksTheGrammarIsNone) {
  for (const char* wrong : {
           "",
           "00",
           // Too short, too long, another version than any.
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
           "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           // Nothing but zeros.
           "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
           // Upper case, other characters, dashes elsewhere.
           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
           "0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0 ",
           " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
           // Two of them.
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01,"
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
       }) {
    EXPECT_FALSE(ParseTraceparent(wrong)) << wrong;
  }
}

TEST(TraceContextTest, NewIdsDiffer) {
  std::set<TraceId> traces;
  std::set<SpanId> spans;
  for (int i = 0; i < 1000; ++i) {
    traces.insert(NewTraceId());
    spans.insert(NewSpanId());
  }
  EXPECT_EQ(traces.size(), 1000u);
  EXPECT_EQ(spans.size(), 1000u);
  EXPECT_EQ(traces.count(TraceId{}), 0u);
}

// 20,000 draws: the mean is 5,000, and 300 are five standard deviations.
TEST(TraceContextTest, TheRateIsAShareOfTheTraces) {
  int sampled = 0;
  for (int i = 0; i < 20'000; ++i) {
    const TraceId id = NewTraceId();
    sampled += IsSampled(id, 0.25) ? 1 : 0;
    EXPECT_EQ(IsSampled(id, 0.25), IsSampled(id, 0.25));
    EXPECT_FALSE(IsSampled(id, 0));
    EXPECT_TRUE(IsSampled(id, 1));
  }
  EXPECT_NEAR(sampled, 5000, 310);
  TraceId all;
  all.fill(0xff);
  EXPECT_TRUE(IsSampled(all, 1));
}

}  // namespace
}  // namespace bole
