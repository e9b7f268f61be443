#include "common/log/log.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

class LogTest : public ::testing::Test {
 protected:
  Log Make(LogFormat format) {
    return Log(format, "bole-test",
               [this](const std::string& line) { lines_.push_back(line); });
  }

  const std::vector<LogField> fields_ = {{"id", std::string("a-1")},
                                         {"who", std::string("x y\n\"z\"")},
                                         {"none", std::string()},
                                         {"count", int64_t{-3}},
                                         {"seconds", 0.25}};
  std::vector<std::string> lines_;
};

TEST_F(LogTest, TextIsTheMessageAfterTheService) {
  Make(LogFormat::kText).Note("worker 1:2 is connected");
  EXPECT_EQ(lines_,
            std::vector<std::string>{"bole-test: worker 1:2 is connected\n"});
}

TEST_F(LogTest, AsTextFieldsAreQuotedWhereTheyAreNotPlain) {
  Make(LogFormat::kText).Write(LogLevel::kWarning, "it failed", fields_);
  EXPECT_EQ(lines_[0],
            "bole-test: it failed id=a-1 who=\"x y\\n\\\"z\\\"\" none=\"\" "
            "count=-3 seconds=0.250000\n");
}

TEST_F(LogTest, JsonHasATimeALevelAndTheFields) {
  Make(LogFormat::kJson).Write(LogLevel::kWarning, "it\nfailed", fields_);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0].find('\n'), lines_[0].size() - 1);
  auto json = nlohmann::json::parse(lines_[0]);
  EXPECT_THAT(json["time"].get<std::string>(),
              ::testing::MatchesRegex("20..-..-..T..:..:..\\.......Z"));
  json.erase("time");
  EXPECT_EQ(json, (nlohmann::json{{"level", "warning"},
                                  {"service", "bole-test"},
                                  {"message", "it\nfailed"},
                                  {"id", "a-1"},
                                  {"who", "x y\n\"z\""},
                                  {"none", ""},
                                  {"count", -3},
                                  {"seconds", 0.25}}));
}

TEST_F(LogTest, BytesThatAreNoTextDoNotBreakALine) {
  const std::vector<LogField> fields = {{"id", std::string("\xff\xfe")}};
  Make(LogFormat::kJson).Write(LogLevel::kInfo, "m", fields);
  Make(LogFormat::kText).Write(LogLevel::kInfo, "m", fields);
  EXPECT_EQ(nlohmann::json::parse(lines_[0])["id"], "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(lines_[1], "bole-test: m id=\"\xef\xbf\xbd\xef\xbf\xbd\"\n");
}

TEST_F(LogTest, WithoutAnOutItGoesToStderr) {
  ::testing::internal::CaptureStderr();
  Log(LogFormat::kText, "bole-test").Note("here");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "bole-test: here\n");
}

}  // namespace
}  // namespace bole
