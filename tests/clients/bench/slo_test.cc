#include "clients/bench/slo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bole::bench {
namespace {

using testing::HasSubstr;

TEST(SloTest, BoundsAreReadInMilliseconds) {
  const absl::StatusOr<Slo> slo = ParseSlo("ttft:500,e2e:10000");

  ASSERT_TRUE(slo.ok()) << slo.status();
  EXPECT_EQ(slo->ttft, 0.5);
  EXPECT_EQ(slo->tpot, std::nullopt);
  EXPECT_EQ(slo->e2e, 10);
  EXPECT_EQ(SloText(*slo), "ttft <= 500 ms, e2e <= 10000 ms");
  EXPECT_EQ(SloText(*ParseSlo("")), "none");
}

TEST(SloTest, WhatIsNoBoundIsNamed) {
  for (const char* text : {"ttft", "ttft:", "ttft:0", "ttft:-1", "ttft:nan",
                           "ttft:x", "ttft:1:2", "itl:5"}) {
    SCOPED_TRACE(text);
    const absl::StatusOr<Slo> slo = ParseSlo(text);
    EXPECT_EQ(slo.status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(ParseSlo("tpot:50,itl:5").status().ToString(),
              HasSubstr("\"itl\""));
}

}  // namespace
}  // namespace bole::bench
