#include "scheduler_service/models/worker_presence.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/ids.h"
#include "gtest/gtest.h"
#include "scheduler_service/models/model_catalog.h"
#include "tests/scheduler_service/catalogs.h"

namespace bole {
namespace {

WorkerEvent Of(int worker, WorkerNews news) {
  return {.worker = WorkerId(worker), .news = std::move(news)};
}

WorkerEvent Connected(uint64_t epoch, const char* model, int worker = 0,
                      const char* device = "") {
  WorkerConnected event{.epoch = epoch, .description = {}};
  event.description.model = model;
  event.description.device = device;
  return Of(worker, std::move(event));
}

class WorkerPresenceTest : public ::testing::Test {
 protected:
  const ModelCatalog catalog_ = testing::TinyCatalog({"m", "n"});
};

TEST_F(WorkerPresenceTest, NobodyIsThereAtFirst) {
  const WorkerPresence presence(catalog_);

  EXPECT_FALSE(presence.Get(ModelId(0)).ready());
  EXPECT_EQ(presence.Get(ModelId(0)).description, nullptr);
}

TEST_F(WorkerPresenceTest, AConnectedWorkerIsReadyUntilItDrains) {
  WorkerPresence presence(catalog_);

  presence.Note(Connected(1, "m"));
  EXPECT_TRUE(presence.Get(ModelId(0)).ready());
  EXPECT_EQ(presence.Get(ModelId(0)).description->model, "m");

  presence.Note(Of(0, WorkerDraining{1}));
  EXPECT_TRUE(presence.Get(ModelId(0)).connected);
  EXPECT_FALSE(presence.Get(ModelId(0)).ready());
}

TEST_F(WorkerPresenceTest, AWorkerThatStaysAfterAllIsReadyAgain) {
  WorkerPresence presence(catalog_);
  presence.Note(Connected(1, "m"));
  presence.Note(Of(0, WorkerDraining{1}));

  presence.Note(Of(0, WorkerDraining{.epoch = 1, .draining = false}));

  EXPECT_TRUE(presence.Get(ModelId(0)).ready());
}

TEST_F(WorkerPresenceTest, ALostWorkerIsRememberedWithTheReason) {
  WorkerPresence presence(catalog_);
  presence.Note(Connected(1, "m"));

  presence.Note(Of(0, WorkerLost{1, absl::UnavailableError("gone")}));

  EXPECT_FALSE(presence.Get(ModelId(0)).ready());
  EXPECT_EQ(presence.Get(ModelId(0)).description->model, "m");
  EXPECT_NE(presence.Get(ModelId(0)).last_error.find("gone"),
            std::string::npos);
}

TEST_F(WorkerPresenceTest, AnotherConnectionBeginsAnew) {
  WorkerPresence presence(catalog_);
  presence.Note(Connected(1, "m"));
  presence.Note(Of(0, WorkerDraining{1}));
  presence.Note(Of(0, WorkerLost{1, absl::UnavailableError("gone")}));

  presence.Note(Connected(2, "m"));

  EXPECT_TRUE(presence.Get(ModelId(0)).ready());
  EXPECT_EQ(presence.Get(ModelId(0)).last_error, "");
}

TEST_F(WorkerPresenceTest, AWorkerIsOneOfTheModelThatItDescribes) {
  WorkerPresence presence(catalog_);
  EXPECT_FALSE(presence.IsAnyReady());

  presence.Note(Connected(1, "n"));
  EXPECT_FALSE(presence.Get(ModelId(0)).connected);
  EXPECT_TRUE(presence.Get(ModelId(1)).ready());
  EXPECT_TRUE(presence.IsAnyReady());

  presence.Note(Connected(2, "m"));
  EXPECT_TRUE(presence.Get(ModelId(0)).ready());
  EXPECT_FALSE(presence.Get(ModelId(1)).connected);
}

TEST_F(WorkerPresenceTest, AWorkerOfNoServedModelIsNotThereAndSaysWhy) {
  WorkerPresence presence(catalog_);

  presence.Note(Connected(1, "other"));

  EXPECT_FALSE(presence.IsAnyReady());
  EXPECT_NE(presence.Get(ModelId(0)).last_error.find("\"other\""),
            std::string::npos);
}

TEST_F(WorkerPresenceTest, OutcomesChangeNothing) {
  WorkerPresence presence(catalog_);
  presence.Note(Connected(1, "m"));

  presence.Note(Of(0, WorkerOutcome{.epoch = 1,
                                    .plan_number = 1,
                                    .result = absl::InternalError("refused")}));

  EXPECT_TRUE(presence.Get(ModelId(0)).ready());
}

TEST_F(WorkerPresenceTest, OneOfManyIsEnough) {
  WorkerPresence presence(catalog_);
  presence.Note(Connected(1, "m", /*worker=*/0));
  presence.Note(Connected(1, "m", /*worker=*/1));
  presence.Note(Connected(1, "m", /*worker=*/2));

  presence.Note(Of(0, WorkerLost{1, absl::UnavailableError("gone")}));
  presence.Note(Of(1, WorkerDraining{1}));
  EXPECT_TRUE(presence.Get(ModelId(0)).ready());
  EXPECT_EQ(presence.Get(ModelId(0)).last_error, "");

  presence.Note(Of(2, WorkerDraining{1}));
  EXPECT_TRUE(presence.Get(ModelId(0)).connected);
  EXPECT_FALSE(presence.Get(ModelId(0)).ready());

  presence.Note(Connected(2, "m", /*worker=*/0));
  EXPECT_TRUE(presence.Get(ModelId(0)).ready());
  presence.Note(Of(0, WorkerLost{2, absl::UnavailableError("again")}));
  presence.Note(Of(1, WorkerLost{1, absl::UnavailableError("left")}));
  presence.Note(Of(2, WorkerLost{1, absl::UnavailableError("left too")}));
  EXPECT_FALSE(presence.Get(ModelId(0)).connected);
  EXPECT_NE(presence.Get(ModelId(0)).last_error.find("left too"),
            std::string::npos);
}

TEST_F(WorkerPresenceTest, TheDescriptionIsThatOfTheOneThatIsThereLongest) {
  WorkerPresence presence(catalog_);
  presence.Note(Connected(1, "m", /*worker=*/1, "first"));
  presence.Note(Connected(1, "m", /*worker=*/0, "second"));
  EXPECT_EQ(presence.Get(ModelId(0)).description->device, "first");

  presence.Note(Of(1, WorkerDraining{1}));

  EXPECT_EQ(presence.Get(ModelId(0)).description->device, "second");
}

}  // namespace
}  // namespace bole
