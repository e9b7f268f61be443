#include "worker_service/eval/json_file.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// `text` in a file makes `read` fail with INVALID_ARGUMENT and this message
// after the path.
struct Refusal {
  std::string text;
  std::string message;
};

void ExpectRefusals(const std::function<absl::Status(const std::string&)>& read,
                    const std::vector<Refusal>& refusals) {
  const ScopedDirectory directory;
  for (const Refusal& refusal : refusals) {
    const std::string path = directory.Write("input.json", refusal.text);

    EXPECT_EQ(read(path), absl::InvalidArgumentError(path + refusal.message))
        << refusal.text;
  }
}

TEST(ReadIdsTest, ReadsEveryInt32) {
  const ScopedDirectory directory;
  const std::string path =
      directory.Write("ids.json", "[0, 7, -1, 2147483647, -2147483648]");

  const absl::StatusOr<std::vector<int32_t>> ids = ReadIds(path);

  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(*ids,
            (std::vector<int32_t>{0, 7, -1, 2147483647, -2147483647 - 1}));
}

TEST(ReadIdsTest, NamesWhatIsNotAnId) {
  ExpectRefusals(
      [](const std::string& path) { return ReadIds(path).status(); },
      {{R"({"ids": [1]})", " is object, not an array"},
       {"3", " is number, not an array"},
       {"[1, 2.0]", "[1] is 2.0, not an integer of 32 bits"},
       {R"(["7"])", R"([0] is "7", not an integer of 32 bits)"},
       {"[[1]]", "[0] is [1], not an integer of 32 bits"},
       {"[null]", "[0] is null, not an integer of 32 bits"},
       {"[2147483648]", "[0] is 2147483648, not an integer of 32 bits"},
       {"[-2147483649]", "[0] is -2147483649, not an integer of 32 bits"},
       // As a signed integer of 64 bits it would be -1.
       {"[18446744073709551615]",
        "[0] is 18446744073709551615, not an integer of 32 bits"}});
}

TEST(ReadIdsTest, AMissingFileIsNotFoundAndABrokenOneIsInvalid) {
  const ScopedDirectory directory;
  const std::string missing = directory.File("missing.json");
  const std::string broken = directory.Write("broken.json", "[1, 2");

  const absl::Status not_found = ReadIds(missing).status();
  const absl::Status invalid = ReadIds(broken).status();

  EXPECT_TRUE(absl::IsNotFound(not_found)) << not_found;
  EXPECT_EQ(not_found.message().find(missing), 0u);
  EXPECT_TRUE(absl::IsInvalidArgument(invalid)) << invalid;
  EXPECT_EQ(invalid.message().find(broken + ": "), 0u);
}

TEST(ReadTreeTest, ReadsTokensAndParents) {
  const ScopedDirectory directory;
  const std::string path = directory.Write(
      "tree.json",
      R"({"tokens": [5, 6, 7], "parents": [-1, 0, 0], "note": "ignored"})");

  const absl::StatusOr<NodeList> tree = ReadTree(path);

  ASSERT_TRUE(tree.ok()) << tree.status();
  EXPECT_EQ(tree->token, (std::vector<int32_t>{5, 6, 7}));
  EXPECT_EQ(tree->parent, (std::vector<int32_t>{-1, 0, 0}));
}

TEST(ReadTreeTest, NamesWhatIsMissingOrNotAList) {
  const std::string no_tree = R"(: not an object with "tokens" and "parents")";
  ExpectRefusals(
      [](const std::string& path) { return ReadTree(path).status(); },
      {{"[1]", no_tree},
       {R"({"tokens": [1]})", no_tree},
       {R"({"parents": [-1]})", no_tree},
       {R"({"tokens": 1, "parents": [-1]})",
        ": tokens is number, not an array"},
       {R"({"tokens": [1], "parents": [true]})",
        ": parents[0] is true, not an integer of 32 bits"}});
}

TEST(ReadPromptsTest, ReadsStringsOfUtf8) {
  const ScopedDirectory directory;
  const std::string path =
      directory.Write("prompts.json", R"(["a", "", "\u00e9\n", "漢"])");

  const absl::StatusOr<std::vector<std::string>> prompts = ReadPrompts(path);

  ASSERT_TRUE(prompts.ok()) << prompts.status();
  EXPECT_EQ(*prompts, (std::vector<std::string>{"a", "", "é\n", "漢"}));
}

TEST(ReadPromptsTest, NamesWhatIsNotAString) {
  ExpectRefusals(
      [](const std::string& path) { return ReadPrompts(path).status(); },
      {{R"("one")", ": is string, not an array of strings"},
       {R"(["a", 1])", "[1] is number, not a string"}});
}

TEST(WriteJsonTest, ReplacesTheFileAndLeavesNothingElse) {
  const ScopedDirectory directory;
  const std::string path = directory.Write("out.json", "old");

  ASSERT_TRUE(WriteJson(path, {{"b", 1}, {"a", {true, "é"}}}).ok());

  // In the order of the keys as they came.
  EXPECT_EQ(Content(path),
            "{\n \"b\": 1,\n \"a\": [\n  true,\n  \"é\"\n ]\n}\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()),
                          std::filesystem::directory_iterator()),
            1);
}

TEST(WriteJsonTest, WritesWhatIsNotUtf8OrNotANumberAsWellAsItCan) {
  const ScopedDirectory directory;
  const std::string path = directory.File("out.json");

  ASSERT_TRUE(WriteJson(path, {"a\xff", NAN}).ok());

  EXPECT_EQ(Content(path), "[\n \"a\xef\xbf\xbd\",\n null\n]\n");
}

TEST(WriteJsonTest, AFailureNamesThePathAndLeavesWhatWasThere) {
  const ScopedDirectory directory;
  const std::string no_folder = directory.File("missing/out.json");
  const std::string folder = directory.File("folder");
  std::filesystem::create_directory(folder);

  for (const std::string& path : {no_folder, folder}) {
    EXPECT_EQ(WriteJson(path, {1}),
              absl::UnavailableError(path + ": cannot be written"));
  }

  EXPECT_TRUE(std::filesystem::is_directory(folder));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()),
                          std::filesystem::directory_iterator()),
            1);
}

TEST(WriteJsonTest, AFullDiskLeavesTheOldContent) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const ScopedDirectory directory;
  const std::string path = directory.Write("out.json", "old");
  std::filesystem::create_symlink("/dev/full", path + ".tmp");

  ASSERT_EQ(WriteJson(path, {1}),
            absl::UnavailableError(path + ": cannot be written"));

  EXPECT_EQ(Content(path), "old");
}

}  // namespace
}  // namespace bole
