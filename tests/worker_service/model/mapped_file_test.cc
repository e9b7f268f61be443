#include "worker_service/model/mapped_file.h"

#include <sys/stat.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

TEST(MappedFileTest, HoldsTheWholeFileAndSurvivesAMove) {
  const ScopedDirectory directory;
  absl::StatusOr<MappedFile> opened =
      MappedFile::Open(directory.Write("a", "some text"));
  ASSERT_TRUE(opened.ok()) << opened.status();

  const MappedFile moved = *std::move(opened);

  EXPECT_EQ(moved.text(), "some text");
  EXPECT_EQ(moved.bytes().size(), 9u);
}

TEST(MappedFileTest, MoveAssignmentKeepsTheOther) {
  const ScopedDirectory directory;
  absl::StatusOr<MappedFile> a = MappedFile::Open(directory.Write("a", "1"));
  absl::StatusOr<MappedFile> b = MappedFile::Open(directory.Write("b", "2"));
  ASSERT_TRUE(a.ok() && b.ok());

  *a = *std::move(b);

  EXPECT_EQ(a->text(), "2");
}

TEST(MappedFileTest, AMissingFileIsNamed) {
  const ScopedDirectory directory;
  const std::string path = directory.File("missing");

  const absl::Status status = MappedFile::Open(path).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), path + ": No such file or directory");
}

TEST(MappedFileTest, WhatIsNotAFileWithContentIsRefused) {
  const ScopedDirectory directory;
  const std::string fifo = directory.File("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const std::string empty = directory.Write("empty", "");

  EXPECT_EQ(MappedFile::Open(directory.path()).status(),
            absl::InvalidArgumentError(directory.path() +
                                       ": is a directory, expected a file"));
  EXPECT_EQ(MappedFile::Open(fifo).status(),
            absl::InvalidArgumentError(fifo + ": is not a regular file"));
  EXPECT_EQ(MappedFile::Open(empty).status(),
            absl::InvalidArgumentError(empty + ": is empty"));
}

}  // namespace
}  // namespace bole
