#include "worker_service/ranks/plan_channel.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "tests/worker_service/ranks/on_ranks.h"
#include "worker_service/ranks/group_memory.h"
#include "worker_service/ranks/rank_group.h"

namespace bole {
namespace {

using testing::NewGroup;

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// The next message of a receiver, which has one.
std::string Next(PlanReceiver& plans) {
  const auto message = plans.Receive();
  EXPECT_TRUE(message.ok() && message->has_value()) << message.status();
  if (!message.ok() || !*message) return "";
  std::string text((*message)->size(), ' ');
  std::memcpy(text.data(), (*message)->data(), text.size());
  return text;
}

// Message i of a test is i * i bytes long and has some rounds, perhaps none.
constexpr int kMessages = 200;
std::string TextOf(int i) { return std::string(i * i, 'a'); }
int RoundsOf(int i) { return i % (kMaxLeaseRounds + 1); }
uint64_t DigestOf(int i, int round) {
  return static_cast<uint64_t>(100 * i + round);
}

void ReceiveAll(PlanReceiver plans) {
  for (int i = 0; i < kMessages; ++i) {
    EXPECT_EQ(Next(plans), TextOf(i));
    for (int round = 0; round < RoundsOf(i); ++round) {
      plans.Say(DigestOf(i, round));
    }
    plans.Done();
  }
  const auto last = plans.Receive();
  EXPECT_TRUE(last.ok() && !*last) << last.status();
}

TEST(PlanChannelTest, AllReceiveWhatIsSentAndTheirRoundsAreCompared) {
  const auto group = NewGroup(3);
  std::thread first([&] { ReceiveAll(PlanReceiver(group, 1)); });
  std::thread second([&] { ReceiveAll(PlanReceiver(group, 2)); });
  PlanSender plans(group);
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_EQ(plans.Send(Bytes(TextOf(i))), absl::OkStatus());
    for (int round = 0; round < RoundsOf(i); ++round) {
      ASSERT_EQ(plans.Compare(round, DigestOf(i, round)), absl::OkStatus());
    }
  }
  EXPECT_EQ(plans.AwaitDone(), absl::OkStatus());
  plans.Close();
  first.join();
  second.join();
}

TEST(PlanChannelTest, ARankThatDiffersIsNamedAndEndsTheGroup) {
  const auto group = NewGroup(3);
  PlanSender plans(group);
  PlanReceiver first(group, 1);
  PlanReceiver second(group, 2);
  ASSERT_TRUE(plans.Send(Bytes("a plan")).ok());
  EXPECT_EQ(Next(first), "a plan");
  EXPECT_EQ(Next(second), "a plan");
  first.Say(7);
  second.Say(8);

  const absl::Status status = plans.Compare(4, 7);

  EXPECT_EQ(status,
            absl::InternalError("rank 2 differs from rank 0 in round 4"));
  EXPECT_EQ(first.Receive().status(), status);
  EXPECT_EQ(plans.Send(Bytes("another")), status);
}

TEST(PlanChannelTest, ARankWithFewerRoundsIsNotWaitedFor) {
  const auto group = NewGroup(2);
  PlanSender plans(group);
  PlanReceiver other(group, 1);
  ASSERT_TRUE(plans.Send(Bytes("a plan")).ok());
  EXPECT_EQ(Next(other), "a plan");
  other.Say(7);
  other.Done();

  EXPECT_EQ(plans.Compare(0, 7), absl::OkStatus());
  EXPECT_EQ(plans.Compare(1, 7), absl::InternalError("rank 1 has no round 1"));
}

TEST(PlanChannelTest, ARankThatIsLateIsNamed) {
  const auto group = NewGroup(2, std::chrono::milliseconds(20));
  PlanSender plans(group);
  ASSERT_TRUE(plans.Send(Bytes("a plan")).ok());
  EXPECT_EQ(plans.Compare(3, 7),
            absl::DeadlineExceededError(
                "rank 1 of 2 gave no result for round 3 within 20 ms"));

  const auto later = NewGroup(2, std::chrono::milliseconds(20));
  PlanSender next(later);
  ASSERT_TRUE(next.Send(Bytes("a plan")).ok());
  EXPECT_EQ(
      next.Send(Bytes("another")),
      absl::DeadlineExceededError("rank 1 of 2 did not finish within 20 ms"));
}

TEST(PlanChannelTest, WhoeverWaitsIsToldWhyTheGroupHasEnded) {
  const auto group = NewGroup(3);
  const absl::Status lost = absl::UnavailableError("rank 2 was killed");
  std::thread other([&] {
    PlanReceiver plans(group, 1);
    auto message = plans.Receive();
    // The plan may have come first.
    if (message.ok()) message = plans.Receive();
    EXPECT_EQ(message.status(), lost);
  });
  std::thread watch([&] { group->End(0, lost); });
  PlanSender plans(group);
  absl::Status status = plans.Send(Bytes("a plan"));
  if (status.ok()) status = plans.Compare(0, 7);
  EXPECT_EQ(status, lost);
  // The first reason is the one that counts.
  group->End(1, absl::InternalError("something else"));
  EXPECT_EQ(group->failure(), lost);
  other.join();
  watch.join();
}

TEST(PlanChannelTest, AMessageThatIsTooLongIsNotSent) {
  const auto group = NewGroup(2);
  PlanSender plans(group);
  const std::vector<std::byte> message(PlanMemory::kMaxMessageBytes + 1);
  EXPECT_TRUE(absl::IsResourceExhausted(plans.Send(message)));
  EXPECT_EQ(group->failure(), absl::OkStatus());
}

}  // namespace
}  // namespace bole
