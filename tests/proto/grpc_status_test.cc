#include "proto/grpc_status.h"

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(GrpcStatusTest, EveryCodeSurvivesTheWayThereAndBack) {
  for (int code = 0; code <= 16; ++code) {
    SCOPED_TRACE(code);
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");

    const grpc::Status sent = ToGrpcStatus(status);

    EXPECT_EQ(sent.error_code(), code);
    EXPECT_EQ(FromGrpcStatus(sent), status);
  }
}

TEST(GrpcStatusTest, NamesAgreeWithNumbers) {
  EXPECT_EQ(ToGrpcStatus(absl::InvalidArgumentError("")).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ToGrpcStatus(absl::ResourceExhaustedError("")).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ToGrpcStatus(absl::UnavailableError("")).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ToGrpcStatus(absl::DeadlineExceededError("")).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST(GrpcStatusTest, AnUnknownCodeIsUnknown) {
  const grpc::Status strange(grpc::StatusCode::DO_NOT_USE, "what");

  EXPECT_EQ(FromGrpcStatus(strange), absl::UnknownError("what"));
}

TEST(GrpcStatusTest, ALongMessageIsCutBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "\xE2\x82\xAC";  // EURO SIGN

  for (const int shift : {0, 1, 2}) {
    const grpc::Status sent =
        ToGrpcStatus(absl::InternalError(std::string(shift, 'x') + text));

    const std::string message = sent.error_message();
    EXPECT_LE(message.size(), kMaxStatusMessageBytes);
    EXPECT_GT(message.size(), kMaxStatusMessageBytes - 4);
    // Whole characters, then "...".
    EXPECT_EQ((message.size() - 3 - shift) % 3, 0u) << message.size();
    EXPECT_EQ(message.substr(message.size() - 3), "...");
  }
}

}  // namespace
}  // namespace bole
