#include "common/tokenizer/read_file.h"

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(ReadFileTest, ReadsEveryByte) {
  const std::string path = ::testing::TempDir() + "/read_file_test.bin";
  const std::string bytes("a\0\r\n\xFF", 5);
  std::ofstream(path, std::ios::binary) << bytes;

  const absl::StatusOr<std::string> exact = ReadFile(path, 5);

  ASSERT_TRUE(exact.ok()) << exact.status();
  EXPECT_EQ(*exact, bytes);
  EXPECT_EQ(ReadFile(path, 4).status().message(),
            path + ": 5 bytes; the limit is 4");
  std::remove(path.c_str());
}

TEST(ReadFileTest, OnlyRegularFilesAreRead) {
  EXPECT_EQ(ReadFile("no/such/file", 9).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadFile(::testing::TempDir(), 9).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadFile("/dev/zero", 9).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace bole
