#include "worker_service/loading/loading_report.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"

namespace bole {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kGb = 1'000'000'000;

class LoadingReportTest : public ::testing::Test {
 protected:
  // What is written when so much is done after so many milliseconds.
  std::string Written(int64_t done, int milliseconds) {
    now_ = Clock::time_point(std::chrono::milliseconds(milliseconds));
    std::fflush(file_);
    const size_t before = size_;
    report_({.done_bytes = done, .all_bytes = 8 * kGb});
    return {text_ + before, size_ - before};
  }

  ~LoadingReportTest() override {
    std::fclose(file_);
    std::free(text_);
  }

  Clock::time_point now_;
  char* text_ = nullptr;  // All that was written.
  size_t size_ = 0;
  std::FILE* file_ = open_memstream(&text_, &size_);
  OnLoadProgress report_ = ReportLoading(
      file_, {.whose = " of rank 0", .now = [this] { return now_; }});
};

TEST_F(LoadingReportTest, ALineComesEveryTwoSecondsAndAtTheEnd) {
  EXPECT_EQ(Written(0, 1000), "");
  EXPECT_EQ(Written(kGb, 2900), "");
  EXPECT_EQ(Written(3 * kGb, 3000),
            "loading: 3.0 of 8.0 GB of rank 0, 1.50 GB/s ...\n");
  EXPECT_EQ(Written(4 * kGb, 4999), "");
  EXPECT_EQ(Written(5 * kGb, 6000),
            "loading: 5.0 of 8.0 GB of rank 0, 1.00 GB/s ...\n");
  EXPECT_EQ(Written(8 * kGb, 6120),
            "loading: 8.0 GB of rank 0 in 5.12 s, 1.56 GB/s\n");
}

}  // namespace
}  // namespace bole
