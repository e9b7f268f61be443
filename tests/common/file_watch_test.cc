#include "common/file_watch.h"

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kInterval(5);

class FileWatchTest : public ::testing::Test {
 protected:
  bool Await(int count) {
    const auto end = steady_clock::now() + std::chrono::seconds(20);
    while (num_changes_ < count && steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    return num_changes_ == count;
  }

  const ScopedDirectory directory_;
  const std::string first_ = directory_.Write("first", "one");
  const std::string second_ = directory_.File("second");
  const std::vector<std::string> paths_ = {first_, second_};
  std::atomic<int> num_changes_{0};
};

TEST_F(FileWatchTest, EveryKindOfChangeIsToldOnce) {
  const FileWatch watch(paths_, StampOf(paths_), kInterval,
                        [this] { ++num_changes_; });

  std::this_thread::sleep_for(4 * kInterval);
  EXPECT_EQ(num_changes_, 0);
  directory_.Write("first", "longer");
  EXPECT_TRUE(Await(1)) << num_changes_;
  directory_.Write("second", "appears");
  EXPECT_TRUE(Await(2)) << num_changes_;
  directory_.Write("new", "another of the same name");
  std::filesystem::rename(directory_.File("new"), second_);
  EXPECT_TRUE(Await(3)) << num_changes_;
  chmod(first_.c_str(), 0600);
  EXPECT_TRUE(Await(4)) << num_changes_;
  std::filesystem::remove(second_);
  EXPECT_TRUE(Await(5)) << num_changes_;
  std::this_thread::sleep_for(4 * kInterval);
  EXPECT_EQ(num_changes_, 5);
}

TEST_F(FileWatchTest, AChangeBeforeTheWatchIsTold) {
  const std::string stamp = StampOf(paths_);
  directory_.Write("first", "longer");

  const FileWatch watch(paths_, stamp, kInterval, [this] { ++num_changes_; });

  EXPECT_TRUE(Await(1)) << num_changes_;
}

TEST_F(FileWatchTest, AChangeIsToldOnceItStandsStill) {
  const FileWatch watch(paths_, StampOf(paths_), milliseconds(200),
                        [this] { ++num_changes_; });

  std::string text;
  const auto end = steady_clock::now() + milliseconds(700);
  while (steady_clock::now() < end) {
    directory_.Write("first", text += "x");
    std::this_thread::sleep_for(milliseconds(5));
  }

  EXPECT_EQ(num_changes_, 0);
  EXPECT_TRUE(Await(1)) << num_changes_;
}

}  // namespace
}  // namespace bole
