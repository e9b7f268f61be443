#include "scheduler_service/worker_presence.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

WorkerConnected Connected(uint64_t epoch, const char* model) {
  WorkerConnected event{.epoch = epoch, .description = {}};
  event.description.model = model;
  return event;
}

TEST(WorkerPresenceTest, NobodyIsThereAtFirst) {
  const WorkerPresence presence;

  EXPECT_FALSE(presence.Get().ready());
  EXPECT_EQ(presence.Get().description, nullptr);
}

TEST(WorkerPresenceTest, AConnectedWorkerIsReadyUntilItDrains) {
  WorkerPresence presence;

  presence.Note(Connected(1, "m"));
  EXPECT_TRUE(presence.Get().ready());
  EXPECT_EQ(presence.Get().description->model, "m");

  presence.Note(WorkerDraining{1});
  EXPECT_TRUE(presence.Get().connected);
  EXPECT_FALSE(presence.Get().ready());
}

TEST(WorkerPresenceTest, ALostWorkerIsRememberedWithTheReason) {
  WorkerPresence presence;
  presence.Note(Connected(1, "m"));

  presence.Note(WorkerLost{1, absl::UnavailableError("gone")});

  EXPECT_FALSE(presence.Get().ready());
  EXPECT_EQ(presence.Get().description->model, "m");
  EXPECT_NE(presence.Get().last_error.find("gone"), std::string::npos);
}

TEST(WorkerPresenceTest, AnotherConnectionBeginsAnew) {
  WorkerPresence presence;
  presence.Note(Connected(1, "m"));
  presence.Note(WorkerDraining{1});
  presence.Note(WorkerLost{1, absl::UnavailableError("gone")});

  presence.Note(Connected(2, "n"));

  EXPECT_TRUE(presence.Get().ready());
  EXPECT_EQ(presence.Get().description->model, "n");
  EXPECT_EQ(presence.Get().last_error, "");
}

TEST(WorkerPresenceTest, OutcomesChangeNothing) {
  WorkerPresence presence;
  presence.Note(Connected(1, "m"));

  presence.Note(WorkerOutcome{
      .epoch = 1, .plan_number = 1, .result = absl::InternalError("refused")});

  EXPECT_TRUE(presence.Get().ready());
}

}  // namespace
}  // namespace bole
