// Files of a flight recorder, and the signals that have them written. What a
// crash leaves is seen from outside, by a child process.
#include "common/flight/flight_file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/flight/flight_signals.h"
#include "common/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr FlightField kFields[] = {{.name = "count"}};

class FlightFileTest : public ::testing::Test {
 protected:
  FlightFileTest() {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    for (int64_t i = 0; i < 5; ++i) recorder_.Add(std::array{10 + i});
  }

  std::unique_ptr<FlightFile> Open() {
    auto file = FlightFile::Open(recorder_, "bole-test", folder_);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      files.push_back(entry.path());
    }
    return files;
  }

  // Awaits one file, whole.
  std::string AwaitFile() const {
    for (int i = 0; i < 10'000; ++i) {
      const std::vector<std::string> files = Files();
      if (files.size() == 1 && files[0].ends_with(".jsonl")) return files[0];
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "no file came";
    return "";
  }

  // The lines of a file, parsed: the header, and then the records.
  static std::vector<nlohmann::json> Read(const std::string& path) {
    std::ifstream file(path);
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(file, line);) {
      auto json = ParseJson(line, /*max_depth=*/1);
      EXPECT_TRUE(json.ok()) << json.status() << ": " << line;
      if (json.ok()) lines.push_back(*std::move(json));
    }
    return lines;
  }

  static void ExpectRecords(const std::string& path, const char* reason) {
    const std::vector<nlohmann::json> lines = Read(path);
    ASSERT_EQ(lines.size(), 5u);
    EXPECT_EQ(lines[0]["flight_record"], "bole-test");
    EXPECT_EQ(lines[0]["reason"], reason);
    EXPECT_EQ(lines[0]["capacity"], 4);
    EXPECT_THAT(path, HasSubstr(std::string("-") + reason + ".jsonl"));
    for (int i = 1; i < 5; ++i) {
      EXPECT_EQ(lines[i]["n"], i);
      EXPECT_EQ(lines[i]["count"], 10 + i);
    }
  }

  const std::string folder_ = ::testing::TempDir() + "/flight";
  FlightRecorder recorder_{kFields, 4};
};

TEST_F(FlightFileTest, HasWhoWroteItAndEveryRecord) {
  const auto path = Open()->Write(FlightReason::kFault);
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(Files(), std::vector<std::string>{*path});
  ExpectRecords(*path, "fault");
  const nlohmann::json header = Read(*path)[0];
  EXPECT_EQ(header["pid"], getpid());
  EXPECT_NEAR(header["written_at"].get<double>(), std::time(nullptr), 60);
}

TEST_F(FlightFileTest, CanBeReadByItsOwnerAlone) {
  const auto path = Open()->Write(FlightReason::kSignal);
  ASSERT_TRUE(path.ok()) << path.status();
  struct stat status;
  ASSERT_EQ(stat(path->c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(FlightFileTest, AFolderThatIsNoneIsNamed) {
  const auto none = FlightFile::Open(recorder_, "bole-test", "/none/here");
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("/none/here: No such file"));
  const std::string path = folder_ + "/file";
  std::ofstream(path) << "text";
  const auto file = FlightFile::Open(recorder_, "bole-test", path);
  EXPECT_THAT(std::string(file.status().message()),
              HasSubstr(path + ": Not a directory"));
  const auto too_long = FlightFile::Open(recorder_, "bole-test",
                                         folder_ + std::string(1000, '/'));
  EXPECT_THAT(std::string(too_long.status().message()),
              HasSubstr("is longer than"));
}

// A disk that is full, as the system's limit on files plays it: nothing is left
// of the file.
TEST_F(FlightFileTest, AFileThatCannotBeWrittenIsNotThere) {
  const std::unique_ptr<FlightFile> file = Open();
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 20, .rlim_max = 20};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    _exit(file->WriteInHandler(FlightReason::kFault) == EFBIG ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(Files(), ::testing::IsEmpty());
}

TEST_F(FlightFileTest, ACrashLeavesItAndEndsTheProcessAsBefore) {
  for (const int signal : {SIGABRT, SIGSEGV}) {
    const std::unique_ptr<FlightFile> file = Open();
    const pid_t child = fork();
    if (child == 0) {
      const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
      setrlimit(RLIMIT_CORE, &no_core);
      WriteOnCrash(file.get());
      if (signal == SIGABRT) std::abort();
      kill(getpid(), signal);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), signal);
    const std::string path = AwaitFile();
    ExpectRecords(path, "crash");
    fs::remove(path);
  }
}

// Notes of a writer, which come on its thread.
class Notes {
 public:
  FlightWriter::Note Take() {
    return [this](const std::string& line) {
      const std::lock_guard<std::mutex> lock(mutex_);
      lines_.push_back(line);
    };
  }
  std::vector<std::string> Await(size_t count) {
    for (int i = 0; i < 10'000 && lines().size() < count; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return lines();
  }

 private:
  std::vector<std::string> lines() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }

  std::mutex mutex_;
  std::vector<std::string> lines_;
};

TEST_F(FlightFileTest, SIGUSR1HasItWritten) {
  const std::unique_ptr<FlightFile> file = Open();
  Notes notes;
  const auto writer = FlightWriter::Start(file.get(), notes.Take());
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
  const std::string path = AwaitFile();
  ExpectRecords(path, "signal");
  EXPECT_THAT(notes.Await(1), ::testing::ElementsAre(HasSubstr(path)));
}

TEST_F(FlightFileTest, OfManyFaultsInAMinuteOneIsWritten) {
  const std::unique_ptr<FlightFile> file = Open();
  Notes notes;
  auto writer = FlightWriter::Start(file.get(), notes.Take());
  ASSERT_TRUE(writer.ok()) << writer.status();
  (*writer)->AskForFault();
  ExpectRecords(AwaitFile(), "fault");
  for (int i = 0; i < 5; ++i) (*writer)->AskForFault();
  ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
  notes.Await(2);
  writer->reset();
  EXPECT_EQ(Files().size(), 2u);
}

TEST_F(FlightFileTest, WithoutAFolderASignalSaysSoAndAFaultIsSilent) {
  Notes notes;
  const auto writer = FlightWriter::Start(nullptr, notes.Take());
  ASSERT_TRUE(writer.ok()) << writer.status();
  (*writer)->AskForFault();
  ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
  EXPECT_THAT(notes.Await(1),
              ::testing::ElementsAre(HasSubstr("--flight-recorder-dir")));
}

}  // namespace
}  // namespace bole

int main(int argc, char** argv) {
  bole::BlockFlightSignal();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
