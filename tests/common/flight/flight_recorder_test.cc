#include "common/flight/flight_recorder.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "common/flight/signal_safe_text.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

constexpr const char* kColours[] = {"red", "green"};
constexpr FlightField kFields[] = {
    {.name = "count"},
    {.name = "seconds", .decimals = 3},
    {.name = "colour", .names = kColours},
};
using Values = std::array<int64_t, 3>;

std::string Decimal(int64_t value, int decimals) {
  std::array<char, 64> room;
  SignalSafeText text(room);
  text.AppendDecimal(value, decimals);
  return std::string(text.text());
}

TEST(SignalSafeTextTest, WritesEveryNumberExactly) {
  EXPECT_EQ(Decimal(0, 0), "0");
  EXPECT_EQ(Decimal(-17, 0), "-17");
  EXPECT_EQ(Decimal(1000, 0), "1000");
  EXPECT_EQ(Decimal(0, 3), "0.000");
  EXPECT_EQ(Decimal(12, 3), "0.012");
  EXPECT_EQ(Decimal(-12, 3), "-0.012");
  EXPECT_EQ(Decimal(123456, 3), "123.456");
  EXPECT_EQ(Decimal(std::numeric_limits<int64_t>::max(), 0),
            "9223372036854775807");
  EXPECT_EQ(Decimal(std::numeric_limits<int64_t>::min(), 9),
            "-9223372036.854775808");
}

TEST(SignalSafeTextTest, LeavesOutWhatDoesNotFit) {
  std::array<char, 4> room;
  SignalSafeText text(room);
  text.Append("abc");
  text.Append("def");
  text.AppendDecimal(5, 0);
  EXPECT_EQ(text.text(), "abcd");
}

TEST(FlightRecorderTest, WritesItsRecordsAsJsonOldestFirst) {
  FlightRecorder recorder(kFields, 4);
  EXPECT_EQ(recorder.ToJsonLines(), "");
  EXPECT_EQ(recorder.Add(Values{7, 1500, 1}), 0u);
  EXPECT_EQ(recorder.Add(Values{-8, 2, 0}), 1u);
  EXPECT_EQ(recorder.ToJsonLines(),
            "{\"n\":0,\"count\":7,\"seconds\":1.500,\"colour\":\"green\"}\n"
            "{\"n\":1,\"count\":-8,\"seconds\":0.002,\"colour\":\"red\"}\n");
}

TEST(FlightRecorderTest, ANumberWithoutANameIsNull) {
  FlightRecorder recorder(kFields, 1);
  recorder.Add(Values{0, 0, 2});
  EXPECT_EQ(recorder.ToJsonLines(),
            "{\"n\":0,\"count\":0,\"seconds\":0.000,\"colour\":null}\n");
}

TEST(FlightRecorderTest, KeepsTheLastOnes) {
  FlightRecorder recorder(kFields, 3);
  for (int i = 0; i < 8; ++i) recorder.Add(Values{i, 0, 0});
  EXPECT_EQ(recorder.num_added(), 8u);
  EXPECT_EQ(recorder.oldest(), 5u);
  std::array<char, FlightRecorder::kMaxLine> line;
  EXPECT_EQ(recorder.FormatLine(4, line), 0u);
  for (uint64_t number = 5; number < 8; ++number) {
    EXPECT_GT(recorder.FormatLine(number, line), 0u);
  }
  EXPECT_EQ(recorder.FormatLine(8, line), 0u);
}

TEST(FlightRecorderTest, AmendsWhatIsThere) {
  FlightRecorder recorder(kFields, 2);
  const uint64_t first = recorder.Add(Values{1, 0, 0});
  recorder.Amend(first, Values{2, 0, 0});
  EXPECT_EQ(recorder.ToJsonLines(),
            "{\"n\":0,\"count\":2,\"seconds\":0.000,\"colour\":\"red\"}\n");
  recorder.Add(Values{3, 0, 0});
  recorder.Add(Values{4, 0, 0});
  const std::string before = recorder.ToJsonLines();
  recorder.Amend(first, Values{5, 0, 0});
  recorder.Amend(/*number=*/3, Values{6, 0, 0});
  EXPECT_EQ(recorder.ToJsonLines(), before);
}

// Whatever a reader gets is one record as it was written, never halves of two.
TEST(FlightRecorderTest, ReadersSeeWholeRecordsWhileOneWrites) {
  constexpr FlightField kTwins[] = {{.name = "a"}, {.name = "b"}};
  using Twins = std::array<int64_t, 2>;
  FlightRecorder recorder(kTwins, 8);
  std::atomic<bool> done{false};
  std::atomic<int> num_read{0};
  const auto read = [&] {
    std::array<char, FlightRecorder::kMaxLine> line;
    while (!done) {
      for (uint64_t n = recorder.oldest(); n < recorder.num_added(); ++n) {
        const std::string text(line.data(), recorder.FormatLine(n, line));
        if (text.empty()) continue;
        ++num_read;
        const size_t a = text.find("\"a\":") + 4;
        const size_t b = text.find("\"b\":") + 4;
        ASSERT_EQ(text.substr(a, text.find(',', a) - a),
                  text.substr(b, text.find('}', b) - b))
            << text;
      }
    }
  };
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) readers.emplace_back(read);
  int64_t value = 0;
  for (int i = 0; i < 20'000 || num_read < 100; ++i) {
    ++value;
    const uint64_t number = recorder.Add(Twins{value, value});
    ++value;
    recorder.Amend(number, Twins{value, value});
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GE(num_read, 100);
}

}  // namespace
}  // namespace bole
