#include "common/model_fingerprint.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

using ::testing::HasSubstr;

TEST(ModelFingerprintTest, DigestsAreThoseOfTheFiles) {
  const ScopedDirectory folder;
  folder.Write("config.json", "{}");
  folder.Write("tokenizer.json", "{\"model\": 1}");
  folder.Write("model.safetensors.index.json", "{\"weight_map\": {}}");
  folder.Write("model.safetensors", "not read, because there is an index");

  const absl::StatusOr<ModelFingerprint> got = FingerprintOf(folder.path());

  ASSERT_EQ(got.status(), absl::OkStatus());
  EXPECT_EQ(got->config, Sha256Hex("{}"));
  EXPECT_EQ(got->tokenizer, Sha256Hex("{\"model\": 1}"));
  EXPECT_EQ(got->weights, Sha256Hex("{\"weight_map\": {}}"));
}

TEST(ModelFingerprintTest, TheHeaderStandsForASingleFileAndItsDataDoesNot) {
  const ScopedDirectory folder;
  folder.Write("model.safetensors", RawSafetensors("{\"a\": 1}", "data"));
  const ScopedDirectory other;
  other.Write("model.safetensors", RawSafetensors("{\"a\": 1}", "DATA"));

  const absl::StatusOr<ModelFingerprint> got = FingerprintOf(folder.path());

  ASSERT_EQ(got.status(), absl::OkStatus());
  EXPECT_EQ(got->weights, Sha256Hex("{\"a\": 1}"));
  EXPECT_EQ(*got, FingerprintOf(other.path()).value());
}

TEST(ModelFingerprintTest, AFileThatIsNotThereHasNoDigest) {
  const ScopedDirectory folder;

  EXPECT_EQ(FingerprintOf(folder.path()).value(), ModelFingerprint());
}

TEST(ModelFingerprintTest, AHeaderThatIsNoneIsAnError) {
  const ScopedDirectory folder;
  folder.Write("model.safetensors", "1234567");
  EXPECT_THAT(std::string(FingerprintOf(folder.path()).status().message()),
              HasSubstr("length cannot be read"));

  folder.Write("model.safetensors", std::string(8, '\xff'));
  EXPECT_THAT(std::string(FingerprintOf(folder.path()).status().message()),
              HasSubstr("is 18446744073709551615; the limit is 134217728"));

  std::string cut = RawSafetensors("{\"a\": 1}", "");
  cut.pop_back();
  folder.Write("model.safetensors", cut);
  EXPECT_THAT(std::string(FingerprintOf(folder.path()).status().message()),
              HasSubstr("ends before its header of 8 bytes"));
}

}  // namespace
}  // namespace bole
