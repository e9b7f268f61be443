#include "clients/sdk/call_error.h"

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "scheduler_service/door/grpc/refusal_status.h"
#include "scheduler_service/jobs/failure.h"
#include "scheduler_service/jobs/refusal.h"

namespace bole {
namespace {

using std::chrono::milliseconds;

TEST(CallErrorTest, ARefusalArrivesWithAllOfIt) {
  const CallError error = ReadError(
      ToGrpcStatus(Refusal{.reason = RefusalReason::kQueueTokens,
                           .message = "full",
                           .bound = ReachedBound{.count = 7, .max = 5},
                           .retry_after = milliseconds(1234)}));

  EXPECT_EQ(error.code, grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(error.message, "full");
  EXPECT_EQ(error.reason, "QUEUE_TOKENS");
  EXPECT_EQ(error.metadata.at("count"), "7");
  EXPECT_EQ(error.metadata.at("max"), "5");
  EXPECT_EQ(error.retry_after, milliseconds(1234));
  EXPECT_TRUE(error.violations.empty());
  EXPECT_FALSE(error.usage.has_value());
}

TEST(CallErrorTest, AWrongFieldArrivesWithItsPath) {
  const CallError error =
      ReadError(ToGrpcStatus(Refusal{.reason = RefusalReason::kInvalid,
                                     .message = "top_p is 2",
                                     .field = "sampling_params.top_p"}));

  EXPECT_EQ(error.reason, "INVALID_ARGUMENT");
  ASSERT_EQ(error.violations.size(), 1u);
  EXPECT_EQ(error.violations[0].field, "sampling_params.top_p");
  EXPECT_EQ(error.violations[0].description, "top_p is 2");
  EXPECT_FALSE(error.retry_after.has_value());
}

TEST(CallErrorTest, AFailureArrivesWithWhatItUsed) {
  v1::Usage usage;
  usage.set_completion_tokens(9);

  const CallError with = ReadError(ToGrpcStatus(
      Failed(FailureReason::kWorkersLost, "three of them"), usage));
  const CallError without =
      ReadError(ToGrpcStatus(absl::InternalError("?"), std::nullopt));

  EXPECT_EQ(with.code, grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(with.reason, "WORKERS_LOST");
  ASSERT_TRUE(with.usage.has_value());
  EXPECT_EQ(with.usage->completion_tokens(), 9u);
  EXPECT_EQ(without.reason, "INTERNAL");
  EXPECT_FALSE(without.usage.has_value());
}

TEST(CallErrorTest, WhatIsNotOursIsLeftOut) {
  google::rpc::ErrorInfo info;
  info.set_domain("elsewhere");
  info.set_reason("THEIRS");
  google::rpc::Status details;
  details.add_details()->PackFrom(info);
  details.add_details()->set_type_url("type.googleapis.com/no.such.Type");
  const std::string bytes = details.SerializeAsString();

  const CallError other =
      ReadError({grpc::StatusCode::UNAVAILABLE, "gone", bytes});
  const CallError none = ReadError({grpc::StatusCode::UNAVAILABLE, "gone"});
  const CallError broken =
      ReadError({grpc::StatusCode::UNAVAILABLE, "gone", "\xFF\xFF"});

  for (const CallError& error : {other, none, broken}) {
    EXPECT_EQ(error.code, grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(error.message, "gone");
    EXPECT_EQ(error.reason, "");
  }
}

// Peers bound the trailing metadata to 8 KiB; bytes become base64, and what is
// no ASCII becomes three times as long.
TEST(CallErrorTest, TheLongestMessageFitsTheTrailingMetadata) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "\xC3\xA9";

  const grpc::Status status = ToGrpcStatus(
      Refusal{.reason = RefusalReason::kInvalid,
              .message = text,
              .field = "chat.messages[1023].tool_calls[127].id",
              .bound = ReachedBound{.count = SIZE_MAX, .max = SIZE_MAX},
              .retry_after = milliseconds(60000)});

  const size_t on_the_wire =
      3 * status.error_message().size() + 4 * status.error_details().size() / 3;
  EXPECT_LT(on_the_wire, 7u << 10);
  EXPECT_EQ(ReadError(status).violations.size(), 1u);
}

}  // namespace
}  // namespace bole
