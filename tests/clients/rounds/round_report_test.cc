#include "clients/rounds/round_report.h"

#include <string>

#include "clients/rounds/round_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

using ::testing::HasSubstr;

constexpr char kHeader[] =
    R"({"flight_record":"bole-scheduler","version":"0.2.0","pid":7,)"
    R"("reason":"asked","written_at":100.5,"capacity":8})"
    "\n";

std::string Line(int n, const char* outcome, double host, double engine) {
  return "{\"n\":" + std::to_string(n) +
         ",\"at\":98.5,\"worker\":2,\"plan\":" + std::to_string(n + 1) +
         ",\"outcome\":\"" + outcome +
         "\",\"host_seconds\":" + std::to_string(host) +
         ",\"plan_seconds\":0.001,\"round_seconds\":" +
         std::to_string(engine + 0.003) +
         ",\"engine_seconds\":" + std::to_string(engine) +
         ",\"apply_seconds\":0.002,\"sequences\":4,\"budget\":64,\"nodes\":48,"
         "\"emitted\":9,\"accepted\":5,\"promised\":6.5,\"off_reason\":null}\n";
}

RoundFile Parse(const std::string& text) {
  auto file = ParseRounds(text);
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *file : RoundFile();
}

TEST(RoundFileTest, ReadsHeaderAndRounds) {
  const RoundFile file =
      Parse(kHeader + Line(0, "done", 0.002, 0.01) + Line(1, "lost", 0, 0));
  EXPECT_EQ(file.service, "bole-scheduler");
  EXPECT_EQ(file.version, "0.2.0");
  EXPECT_EQ(file.reason, "asked");
  EXPECT_EQ(file.written_at, 100.5);
  ASSERT_EQ(file.rounds.size(), 2u);
  EXPECT_EQ(file.rounds[0].number("budget"), 64);
  EXPECT_EQ(file.rounds[1].word("outcome"), "lost");
  EXPECT_EQ(file.rounds[1].number("unknown"), 0);
  EXPECT_EQ(file.rounds[1].word("off_reason"), "");
}

TEST(RoundFileTest, WhatIsNoneNamesItsLine) {
  const auto error = [](const std::string& text) {
    return std::string(ParseRounds(text).status().message());
  };
  EXPECT_EQ(error(""), "it is empty");
  EXPECT_THAT(error("{\"n\":1}\n"), HasSubstr("line 1: it does not say"));
  EXPECT_THAT(error(std::string(kHeader) + "{\"n\":1}\n{\"n\":\n"),
              HasSubstr("line 3: "));
  EXPECT_EQ(error(std::string(kHeader) + "[1]\n"), "line 2: not an object");
  EXPECT_EQ(error(std::string(kHeader) + "{\"n\":true}\n"),
            "line 2: n is true, neither a number nor a text");
}

TEST(RoundReportTest, SumsPhasesAndNamesTheLongestAndTheLast) {
  std::string text = kHeader;
  for (int i = 0; i < 8; ++i) text += Line(i, "done", 0.002, 0.01);
  text += Line(8, "done", 0.002, 0.9) + Line(9, "on_its_way", 0.002, 0);
  const std::string summary = RoundSummary(Parse(text));
  EXPECT_THAT(summary, HasSubstr("bole-scheduler 0.2.0, written for reason "
                                 "\"asked\": 10 rounds of the last 2.000 s (9 "
                                 "done, 1 on_its_way)\n"));
  EXPECT_THAT(summary, HasSubstr("engine           10.000       10.000      "
                                 "900.000"));
  // A round spends 3 ms on the wire, 1 ms on planning and 1 ms on the rest of
  // the host's work.
  EXPECT_THAT(summary, HasSubstr("wire              3.000"));
  EXPECT_THAT(summary, HasSubstr("plan              1.000"));
  EXPECT_THAT(summary, HasSubstr("host              1.000"));
  EXPECT_THAT(summary, HasSubstr("90 tokens emitted, 50 of them accepted "
                                 "drafts; 480 nodes of a budget of 640; 65.0 "
                                 "drafts were promised"));
  EXPECT_THAT(summary, HasSubstr("longest, 907.000 ms: worker 2, plan 9,"));
  EXPECT_THAT(summary, HasSubstr("last: worker 2, plan 10, round 0: "
                                 "on_its_way, 4 sequences, 48 nodes"));
}

TEST(RoundReportTest, DrawsStackedPhasesBudgetsAndRequests) {
  std::string text = kHeader;
  for (int i = 0; i < 8; ++i) text += Line(i, "done", 0.002, 0.01);
  const std::string svg = RoundSvg(Parse(text));
  EXPECT_THAT(svg, ::testing::StartsWith("<svg "));
  for (const char* what : {"host", "plan", "wire", "engine", "apply", "budget",
                           "nodes", "running", "emitted"}) {
    EXPECT_THAT(svg, HasSubstr(std::string(">") + what + "</text>"));
  }
  EXPECT_THAT(svg, HasSubstr("<polygon"));
}

TEST(RoundReportTest, AWorkersPhasesAreItsOwn) {
  const RoundFile file = Parse(
      R"({"flight_record":"bole-worker","version":"0.2.0","reason":"fault"})"
      "\n"
      R"({"n":0,"stream":3,"plan":8,"outcome":"running","queue_seconds":0.5,)"
      R"("engine_seconds":0.25})"
      "\n");
  EXPECT_THAT(RoundSummary(file), HasSubstr("queue           500.000"));
  EXPECT_THAT(RoundSummary(file), HasSubstr("last: stream 3, plan 8,"));
  EXPECT_THAT(RoundSvg(file), HasSubstr(">validate</text>"));
}

TEST(RoundReportTest, AFileWithoutRoundsIsTold) {
  const RoundFile file = Parse(kHeader);
  EXPECT_THAT(RoundSummary(file), HasSubstr("0 rounds\n"));
  EXPECT_THAT(RoundSvg(file), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace bole
