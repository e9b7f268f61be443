#include "scheduler_service/door/asked_models.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "gtest/gtest.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/models/model_catalog.h"
#include "scheduler_service/models/worker_presence.h"
#include "tests/scheduler_service/catalogs.h"
#include "tests/scheduler_service/served_model.h"

namespace bole {
namespace {

TEST(AskedModelsTest, AModelIsFoundWithItsTextAndItsWorkers) {
  const ModelCatalog catalog = testing::TinyCatalog({"other", "tiny"});
  WorkerPresence presence(catalog);
  const AskedModels models(catalog, presence);
  EXPECT_FALSE(models.Find("tiny")->workers.ready());

  presence.Note({.worker = WorkerId(0),
                 .news = WorkerConnected{
                     .epoch = 1, .description = testing::TinyWorker()}});

  const auto found = models.Find("tiny");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->id, ModelId(1));
  EXPECT_EQ(found->name, "tiny");
  EXPECT_EQ(&found->text, &catalog.at(ModelId(1)).text);
  EXPECT_TRUE(found->workers.ready());
  EXPECT_FALSE(models.Find("other")->workers.ready());
  EXPECT_TRUE(absl::IsNotFound(models.Find("third").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(models.Find("").status()));
}

}  // namespace
}  // namespace bole
