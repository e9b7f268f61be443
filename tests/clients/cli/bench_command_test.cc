// `bole bench` as a process, with a scheduler that says what the test tells it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/clients/cli/process.h"
#include "tests/clients/fake_bole_service.h"

namespace bole::testing_support {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string PathOf(const std::string& name) {
  return testing::TempDir() + "/" + name;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class BenchCommandTest : public testing::Test {
 protected:
  BenchCommandTest() {
    service().model.set_vocab_size(500);
    service().model.set_max_context(1000);
    service().SetAnswers({AnswerOf({"a", "b", "c"})});
  }

  FakeBoleService& service() { return server_.service(); }

  Process Bench(std::vector<std::string> flags, std::string_view input = "",
                Streams streams = Streams::kPipes) {
    flags.insert(flags.begin(), {"clients/cli/bole", "bench"});
    flags.insert(flags.end(), {"--server", server_.address()});
    return Process(flags, input, streams);
  }

  FakeServer server_;
};

TEST_F(BenchCommandTest, PrintsCountsLatenciesAndDefinitions) {
  Process bole = Bench({"--synthetic", "20:3", "--rate", "inf", "-n", "5"});

  EXPECT_EQ(bole.Wait(), 0) << bole.err();
  EXPECT_THAT(bole.out(), HasSubstr("5 sent, 5 ended well, 0 refused"));
  EXPECT_THAT(bole.out(), HasSubstr("all at once"));
  EXPECT_THAT(bole.out(), HasSubstr("inter-token latency"));
  EXPECT_THAT(bole.out(), HasSubstr("counts from the scheduled arrival"));
  EXPECT_THAT(bole.err(), HasSubstr("next: "));
  const std::vector<v1::GenerateRequest> requests = service().requests();
  ASSERT_EQ(requests.size(), 5u);
  EXPECT_EQ(requests[0].token_ids().ids_size(), 20);
  EXPECT_EQ(requests[0].sampling_params().max_tokens(), 3);
  EXPECT_TRUE(requests[0].sampling_params().ignore_eos());
}

TEST_F(BenchCommandTest, ReadsPromptsFromAPipe) {
  Process bole = Bench({"-", "--concurrency", "1"},
                       "{\"prompt\": \"one\"}\n{\"prompt\": \"two\"}\n");

  EXPECT_EQ(bole.Wait(), 0) << bole.err();
  const std::vector<v1::GenerateRequest> requests = service().requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].chat().messages(0).content(), "one");
  EXPECT_EQ(requests[0].sampling_params().max_tokens(), 128);
  EXPECT_FALSE(requests[0].sampling_params().ignore_eos());
}

TEST_F(BenchCommandTest, ReportsAreWrittenAndCompared) {
  const std::string json = PathOf("a.json");
  const std::string svg = PathOf("a.svg");
  Process bole = Bench({"--synthetic", "20:3", "--concurrency", "2", "-n", "9",
                        "--out", json, "--svg", svg, "--json"});

  ASSERT_EQ(bole.Wait(), 0) << bole.err();
  const nlohmann::json report = nlohmann::json::parse(bole.out());
  EXPECT_EQ(report["counts"]["succeeded"], 9);
  EXPECT_EQ(report["counts"]["output_tokens"], 27);
  EXPECT_EQ(report["latencies"]["itl"]["count"], 18);
  EXPECT_EQ(report["requests"].size(), 9u);
  EXPECT_EQ(nlohmann::json::parse(ReadFile(json)), report);
  EXPECT_THAT(ReadFile(svg), HasSubstr("</svg>"));

  Process compare(
      {"clients/cli/bole", "bench", "compare", json, json, "--fail-above", "1"},
      "", Streams::kPipes);
  EXPECT_EQ(compare.Wait(), 0) << compare.err();
  EXPECT_THAT(compare.out(), HasSubstr("ttft p99, ms"));
  EXPECT_THAT(compare.out(), Not(HasSubstr("worse")));
}

TEST_F(BenchCommandTest, SendsTargetsAndReportsWhatWasVerified) {
  FakeAnswer answer = AnswerOf({"a", "b", "c"});
  v1::Speculation& speculation =
      *answer.responses.back().mutable_complete()->mutable_speculation();
  speculation.set_rounds(2);
  speculation.set_off_rounds(2);
  speculation.set_selected_nodes(2);
  speculation.set_off_reason(v1::SPECULATION_OFF_REASON_NO_TABLE);
  service().SetAnswers({answer});
  const std::string json = PathOf("targets.json");

  Process bole = Bench({"--synthetic", "20:3", "--concurrency", "1", "-n", "3",
                        "--ttft-ms", "300", "--tpot-ms", "20", "--out", json});

  ASSERT_EQ(bole.Wait(), 0) << bole.err();
  const v1::LatencyTargets sent = service().requests().back().targets();
  EXPECT_EQ(sent.time_to_first_token_ms(), 300u);
  EXPECT_EQ(sent.time_per_output_token_ms(), 20u);
  EXPECT_THAT(bole.out(), HasSubstr("time_to_first_token_ms: 300"));
  EXPECT_THAT(bole.out(),
              HasSubstr("off in 6 (the worker was not calibrated) of 6 rounds; "
                        "1.0 nodes a request and round"));
  const nlohmann::json report = nlohmann::json::parse(ReadFile(json));
  EXPECT_EQ(report["speculation"]["off_rounds"], 6);
  EXPECT_EQ(report["speculation"]["off_reasons"],
            (nlohmann::json{{"NO_TABLE", 6}}));
}

TEST_F(BenchCommandTest, AServerThatRefusesEverythingIsUnavailable) {
  service().SetAnswers({QueueIsFull("2 requests wait", 750)});

  Process bole = Bench({"--synthetic", "20:3", "--rate", "inf", "-n", "2"});

  EXPECT_EQ(bole.Wait(), 3);
  EXPECT_THAT(bole.out(), HasSubstr("RESOURCE_EXHAUSTED QUEUE_REQUESTS"));
}

TEST_F(BenchCommandTest, CtrlCPrintsTheReportOfWhatThereIs) {
  service().SetAnswers({{.responses = {}, .hang = true}});
  Process bole = Bench({"--synthetic", "20:3", "--concurrency", "2"}, "",
                       Streams::kTerminal);
  ASSERT_TRUE(bole.WaitFor("2 in flight"));

  bole.Type("\003");

  EXPECT_EQ(bole.Wait(), 130);
  EXPECT_THAT(bole.out(), HasSubstr("2 sent, 0 ended well, 0 refused, 2 fa"));
  EXPECT_THAT(bole.out(), HasSubstr("2  CANCELLED"));
  EXPECT_THAT(bole.out(), HasSubstr("Interrupted"));
}

TEST_F(BenchCommandTest, WhatCannotBeRunIsWrongUsage) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--rate", "1"},
      {"--synthetic", "20", "--rate", "1"},
      {"--synthetic", "20:3"},
      {"--synthetic", "20:3", "--rate", "0"},
      {"--synthetic", "20:3", "--rate", "1", "--concurrency", "1"},
      {"--synthetic", "20:3", "--rate", "1", "--slo", "ttft"},
      {"--synthetic", "20:3", "--rate", "1", "--pattern", "odd"},
      {"none.jsonl", "--rate", "1"},
      {"compare", "none.json"}};
  for (const std::vector<std::string>& flags : wrong) {
    SCOPED_TRACE(testing::PrintToString(flags));
    Process bole = Bench(flags);
    EXPECT_EQ(bole.Wait(), 2);
    EXPECT_NE(bole.err(), "");
  }
  EXPECT_TRUE(service().requests().empty());
}

TEST_F(BenchCommandTest, MetricsThatCannotBeReadAreAnErrorBeforeTheRun) {
  Process bole = Bench({"--synthetic", "20:3", "--rate", "inf", "--metrics-url",
                        "http://127.0.0.1:1/metrics"});

  EXPECT_EQ(bole.Wait(), 1);
  EXPECT_THAT(bole.err(), HasSubstr("http://127.0.0.1:1/metrics"));
  EXPECT_TRUE(service().requests().empty());
}

}  // namespace
}  // namespace bole::testing_support
