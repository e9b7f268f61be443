#include "scheduler_service/models/model_catalog.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/model_fingerprint.h"
#include "gtest/gtest.h"
#include "scheduler_service/links/worker_client.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/scheduler_service/catalogs.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

bool Says(const absl::Status& status, const std::string& what) {
  return status.message().find(what) != std::string::npos;
}

class ModelCatalogTest : public ::testing::Test {
 protected:
  ModelCatalogTest() {
    directory_.Write("tokenizer.json", testing::TinyTokenizerJson());
  }

  const ScopedDirectory directory_;
};

TEST_F(ModelCatalogTest, TheNameIsTheFoldersUnlessItIsGiven) {
  const std::string path = directory_.path();

  const auto catalog = ModelCatalog::Load(std::vector<std::string>{
      "mine=" + path, path + "/", "made,up=1=" + path});

  ASSERT_TRUE(catalog.ok()) << catalog.status();
  EXPECT_EQ(catalog->at(ModelId(0)).name, "mine");
  EXPECT_EQ(catalog->at(ModelId(1)).name,
            path.substr(path.find_last_of('/') + 1));
  EXPECT_EQ(catalog->at(ModelId(2)).name, "made,up=1");
}

TEST_F(ModelCatalogTest, ANameThatIsThereTwiceOrCannotBeWrittenIsRefused) {
  const std::string path = directory_.path();
  for (const std::vector<std::string>& specs :
       {std::vector<std::string>{"a=" + path, "a=" + path},
        {path, path},
        {"=" + path},
        {"a b=" + path}}) {
    const absl::Status status = ModelCatalog::Load(specs).status();

    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(Says(status, specs.back())) << status;
  }
}

TEST_F(ModelCatalogTest, AFolderWithoutATokenizerIsAnErrorThatNamesTheFile) {
  const auto catalog = ModelCatalog::Load(std::vector<std::string>{"a=none"});

  EXPECT_TRUE(absl::IsNotFound(catalog.status()));
  EXPECT_TRUE(Says(catalog.status(), "none/tokenizer.json"));
}

TEST(ModelCatalogFindTest, OfSeveralModelsOneHasToBeNamed) {
  const ModelCatalog one = testing::TinyCatalog({"a"});
  const ModelCatalog two = testing::TinyCatalog({"a", "b"});

  EXPECT_EQ(*one.Find(""), ModelId(0));
  EXPECT_EQ(*two.Find("b"), ModelId(1));
  EXPECT_TRUE(absl::IsInvalidArgument(two.Find("").status()));
  const absl::Status unknown = two.Find("c").status();
  EXPECT_TRUE(absl::IsNotFound(unknown));
  EXPECT_TRUE(Says(unknown, "\"c\"") && Says(unknown, "\"a\", \"b\""));
}

class ModelOfTest : public ::testing::Test {
 protected:
  ModelOfTest() { worker_.model = "a"; }

  static ModelCatalog Catalog(bool allow_synthetic) {
    std::vector<CatalogModel> models;
    models.push_back({.name = "a",
                      .text = {},
                      .fingerprint = {.config = "c1", .tokenizer = "t1"}});
    return ModelCatalog(std::move(models), allow_synthetic);
  }

  const ModelCatalog catalog_ = Catalog(/*allow_synthetic=*/false);
  WorkerDescription worker_;
};

TEST_F(ModelOfTest, AWorkerWithTheSameFilesJoins) {
  worker_.fingerprint = {.config = "c1", .tokenizer = "t1", .weights = "w1"};

  EXPECT_EQ(*catalog_.ModelOf(worker_), ModelId(0));
}

TEST_F(ModelOfTest, AnotherFileIsRefusedWithBothDigests) {
  for (const ModelFingerprint& other :
       {ModelFingerprint{.config = "x9", .tokenizer = "t1"},
        ModelFingerprint{.config = "c1", .tokenizer = "x9"}}) {
    worker_.fingerprint = other;

    const absl::Status refused = catalog_.ModelOf(worker_).status();

    EXPECT_TRUE(absl::IsAborted(refused));
    const std::string served = other.config == "x9" ? "c1" : "t1";
    EXPECT_TRUE(Says(refused, "x9") && Says(refused, served)) << refused;
  }
}

TEST_F(ModelOfTest, ASyntheticWorkerJoinsByNameIfThatIsAllowed) {
  worker_.synthetic = true;
  worker_.fingerprint = {.config = "x9"};

  const absl::Status refused = catalog_.ModelOf(worker_).status();

  EXPECT_TRUE(absl::IsAborted(refused));
  EXPECT_TRUE(Says(refused, "--allow-synthetic")) << refused;
  EXPECT_EQ(*Catalog(/*allow_synthetic=*/true).ModelOf(worker_), ModelId(0));
}

}  // namespace
}  // namespace bole
