#include "clients/cli/failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace bole {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

Failure ExplainCode(StatusCode code) {
  return Explain({.code = code, .message = "the reason"},
                 {.address = "host:1"});
}

TEST(ExplainTest, ExitCodesTellWhatToDoNext) {
  EXPECT_EQ(ExplainCode(StatusCode::UNAVAILABLE).exit_code, 3);
  EXPECT_EQ(ExplainCode(StatusCode::RESOURCE_EXHAUSTED).exit_code, 3);
  EXPECT_EQ(ExplainCode(StatusCode::DEADLINE_EXCEEDED).exit_code, 4);
  EXPECT_EQ(ExplainCode(StatusCode::CANCELLED).exit_code, 130);
  EXPECT_EQ(ExplainCode(StatusCode::INVALID_ARGUMENT).exit_code, 1);
  EXPECT_EQ(ExplainCode(StatusCode::INTERNAL).exit_code, 1);
}

TEST(ExplainTest, EveryOtherStatusKeepsTheServersReason) {
  for (int code = 1; code <= 16; ++code) {
    const Failure failure = ExplainCode(static_cast<StatusCode>(code));

    EXPECT_NE(failure.exit_code, 0) << code;
    if (code == StatusCode::CANCELLED ||
        code == StatusCode::DEADLINE_EXCEEDED) {
      continue;
    }
    EXPECT_THAT(failure.sentence, HasSubstr("the reason")) << code;
  }
}

TEST(ExplainTest, NamesCodesAsGrpcDoes) {
  EXPECT_EQ(ExplainCode(StatusCode::CANCELLED).code, "CANCELLED");
  EXPECT_EQ(ExplainCode(StatusCode::UNAVAILABLE).code, "UNAVAILABLE");
  EXPECT_EQ(ExplainCode(StatusCode::UNAUTHENTICATED).code, "UNAUTHENTICATED");
  EXPECT_EQ(ExplainCode(static_cast<StatusCode>(31)).code, "CODE_31");
}

TEST(ExplainTest, AServerThatWasNotReachedIsToldFromOneThatRefuses) {
  const CallError error{.code = StatusCode::UNAVAILABLE,
                        .message = "failed to connect: Connection refused"};

  const Failure away = Explain(error, {.address = "host:1", .reached = false});
  const Failure refusing =
      Explain(error, {.address = "host:1", .reached = true});

  EXPECT_THAT(away.sentence,
              HasSubstr("nothing answers at host:1: Connection refused\n"));
  EXPECT_THAT(refusing.sentence, HasSubstr("host:1 is not available"));
}

TEST(ExplainTest, AFieldThatIsNotOfferedIsToldFromAServerThatIsNotOurs) {
  CallError error{.code = StatusCode::UNIMPLEMENTED, .message = "no regex"};
  EXPECT_THAT(Explain(error, {.address = "host:1"}).sentence,
              HasSubstr("not as Bole's scheduler"));

  error.reason = "UNIMPLEMENTED";
  EXPECT_EQ(Explain(error, {.address = "host:1"}).sentence,
            "the server does not offer that: no regex");
}

TEST(ExplainTest, SaysWhichFieldIsWrongAndWhenToComeAgain) {
  const CallError error{.code = StatusCode::RESOURCE_EXHAUSTED,
                        .message = "full",
                        .violations = {{"a.b", "full"}, {"c", "is 2"}},
                        .retry_after = std::chrono::milliseconds(750)};

  EXPECT_EQ(Explain(error, {.address = "host:1"}).sentence,
            "the server has no room: full; try again in 750 ms\n"
            "  field a.b\n"
            "  field c: is 2");
}

}  // namespace
}  // namespace bole
