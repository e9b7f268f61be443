#include "scheduler_service/door/front_door.h"

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "scheduler_service/jobs/intake_rate.h"
#include "tests/scheduler_service/door/tiny_door.h"

namespace bole {
namespace {

using testing::TinyDoor;

// A body with so many tokens and choices, whatever the message says.
ReadBody Tokens(size_t num, uint32_t num_choices = 1) {
  return [=](const ModelText&, const WorkerDescription&) {
    RequestBody body;
    body.prompt = std::vector<int32_t>(num, 1);
    body.num_choices = num_choices;
    return body;
  };
}

// It must not be called.
absl::StatusOr<RequestBody> Unread(const ModelText&, const WorkerDescription&) {
  ADD_FAILURE() << "the message was read";
  return RequestBody();
}

std::optional<Refusal> Refused(const std::variant<ReadMessage, Refusal>& read) {
  if (const auto* refusal = std::get_if<Refusal>(&read)) return *refusal;
  return std::nullopt;
}

// Reads and submits, with streams that nobody reads.
std::optional<Refusal> Ask(FrontDoor& door, const RequestHead& head,
                           size_t num_tokens, uint32_t num_choices = 1) {
  auto read = door.Read(head, Tokens(num_tokens, num_choices));
  if (auto refusal = Refused(read)) return refusal;
  auto& requests = std::get<ReadMessage>(read).choices.requests;
  for (const std::unique_ptr<Request>& request : requests) {
    request->stream = std::make_shared<TokenStream>([] {});
  }
  return door.Submit(requests);
}

class OpenCallStub : public WatchedCall {
 public:
  HeldOutput held() const override { return {}; }
  void EndForReader(ReaderFault /*fault*/) override {}
};

TEST(FrontDoorTest, ARequestCarriesWhoAskedAndTheSizeOfItsMessage) {
  TinyDoor tiny;
  tiny.ConnectWorker();

  auto read = tiny.door.Read({.tenant = "blue-1", .model = "tiny", .bytes = 77},
                             Tokens(3, /*num_choices=*/2));

  ASSERT_FALSE(Refused(read).has_value());
  const auto& message = std::get<ReadMessage>(read);
  EXPECT_EQ(message.model.name, "tiny");
  ASSERT_EQ(message.choices.requests.size(), 2u);
  for (const std::unique_ptr<Request>& request : message.choices.requests) {
    EXPECT_EQ(request->tenant, "blue-1");
    EXPECT_EQ(request->bytes, 77u);
    EXPECT_EQ(request->prompt.size(), 3u);
  }
}

TEST(FrontDoorTest, ATenantThatIsNoneIsRefusedBeforeTheMessageIsRead) {
  TinyDoor tiny;
  tiny.ConnectWorker();

  const auto refusal = Refused(tiny.door.Read({.tenant = "a b"}, Unread));

  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, RefusalReason::kInvalid);
  EXPECT_NE(refusal->message.find("bole-tenant is 'a b'"), std::string::npos);
}

TEST(FrontDoorTest, AModelThatIsNotServedIsRefusedWithBothNames) {
  TinyDoor tiny;
  tiny.ConnectWorker();

  const auto refusal = Refused(tiny.door.Read({.model = "huge"}, Unread));

  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, RefusalReason::kUnknownModel);
  EXPECT_EQ(refusal->message, "model is \"huge\"; served: \"tiny\"");
  EXPECT_FALSE(refusal->retry_after.has_value());
}

TEST(FrontDoorTest, WithoutAWorkerThatTakesRequestsNothingIsRead) {
  TinyDoor tiny;

  const auto before = tiny.door.Check({.model = "tiny"});
  tiny.ConnectWorker();
  const auto connected = tiny.door.Check({});
  tiny.presence.Note({.worker = WorkerId(0), .news = WorkerDraining{1}});
  const auto draining = tiny.door.Check({});

  ASSERT_TRUE(before && draining);
  EXPECT_EQ(before->reason, RefusalReason::kNoWorker);
  EXPECT_EQ(before->message, "no worker is connected");
  EXPECT_FALSE(connected.has_value());
  EXPECT_EQ(draining->reason, RefusalReason::kNoWorker);
}

TEST(FrontDoorTest, ADoorThatDrainsTakesNothing) {
  TinyDoor tiny;
  tiny.ConnectWorker();
  tiny.door.Drain();

  const auto refusal = Refused(tiny.door.Read({}, Unread));

  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, RefusalReason::kDraining);
  EXPECT_FALSE(refusal->retry_after.has_value());
}

TEST(FrontDoorTest, OpenCallsAreBounded) {
  TinyDoor tiny({.max_open_requests = 1});
  tiny.ConnectWorker();
  const auto first = std::make_shared<OpenCallStub>();
  const auto second = std::make_shared<OpenCallStub>();
  tiny.door.open_calls().Add(first);
  EXPECT_FALSE(tiny.door.Check({}).has_value());
  tiny.door.open_calls().Add(second);

  const auto refusal = tiny.door.Check({});

  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, RefusalReason::kTooManyOpen);
  EXPECT_EQ(refusal->message, "too_many_open: 1, of at most 1");
  EXPECT_TRUE(refusal->retry_after.has_value());
  tiny.door.open_calls().Remove(*first);
  tiny.door.open_calls().Remove(*second);
}

TEST(FrontDoorTest, AFullQueueIsRefusedBeforeTheMessageIsRead) {
  TinyDoor tiny({}, {.max_requests = 1});
  tiny.ConnectWorker();
  ASSERT_FALSE(Ask(tiny.door, {}, 10).has_value());

  const auto refusal = Refused(tiny.door.Read({}, Unread));

  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, RefusalReason::kQueueRequests);
  EXPECT_EQ(refusal->retry_after, kFirstRetryDelay);
}

TEST(FrontDoorTest, TheQueueIsCheckedAgainWithTheTokensOfTheRequest) {
  TinyDoor tiny({}, {.max_tokens = 20});
  tiny.ConnectWorker();
  ASSERT_FALSE(Ask(tiny.door, {}, 15).has_value());

  const auto refusal = Ask(tiny.door, {}, 6);
  const auto fits = Ask(tiny.door, {}, 5);

  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, RefusalReason::kQueueTokens);
  EXPECT_EQ(refusal->retry_after, kFirstRetryDelay);
  EXPECT_FALSE(fits.has_value());
}

TEST(FrontDoorTest, TheTokensOfAllChoicesCount) {
  TinyDoor tiny({}, {.max_tokens = 20});
  tiny.ConnectWorker();
  ASSERT_FALSE(Ask(tiny.door, {}, 8).has_value());

  const auto refusal = Ask(tiny.door, {}, 5, /*num_choices=*/3);
  const auto fits = Ask(tiny.door, {}, 4, /*num_choices=*/3);

  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, RefusalReason::kQueueTokens);
  EXPECT_FALSE(fits.has_value());
}

TEST(FrontDoorTest, WhatCannotBeReadIsInvalid) {
  TinyDoor tiny;
  tiny.ConnectWorker();

  const auto unreadable = Refused(tiny.door.Read(
      {},
      [](const ModelText&,
         const WorkerDescription&) -> absl::StatusOr<RequestBody> {
        return absl::InvalidArgumentError("input is not set");
      }));
  const auto empty = Refused(tiny.door.Read({}, Tokens(0)));

  ASSERT_TRUE(unreadable && empty);
  EXPECT_EQ(unreadable->reason, RefusalReason::kInvalid);
  EXPECT_EQ(unreadable->message, "input is not set");
  EXPECT_EQ(empty->reason, RefusalReason::kInvalid);
}

}  // namespace
}  // namespace bole
