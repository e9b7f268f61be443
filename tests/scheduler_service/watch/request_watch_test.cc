// What a collector and the log are told of requests.
#include "scheduler_service/watch/request_watch.h"

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "prometheus/registry.h"
#include "scheduler_service/jobs/failure.h"
#include "scheduler_service/watch/request_watcher.h"

namespace bole {
namespace {

using std::chrono::milliseconds;

constexpr char kCaller[] =
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-";

class RequestWatchTest : public ::testing::Test {
 protected:
  std::shared_ptr<CallWatch> Call(const std::string& traceparent,
                                  double rate = 0) {
    return std::make_shared<CallWatch>(
        RequestWatcherOptions{.spans = exporter_.get(),
                              .sample_rate = rate,
                              .log = &log_,
                              .logged = logged_},
        WatchedRequest{.id = "id-1",
                       .tenant = "red",
                       .traceparent = traceparent,
                       .arrival = arrival_});
  }

  // The spans that were exported, by their names; ends the exporter.
  std::multimap<std::string, nlohmann::json> Spans() {
    exporter_.reset();
    std::multimap<std::string, nlohmann::json> spans;
    for (const std::string& body : bodies_) {
      const auto json = nlohmann::json::parse(body);
      for (const auto& span :
           json["resourceSpans"][0]["scopeSpans"][0]["spans"]) {
        spans.emplace(span["name"], span);
      }
    }
    return spans;
  }
  static nlohmann::json Attribute(const nlohmann::json& span,
                                  const std::string& key) {
    for (const auto& attribute : span["attributes"]) {
      if (attribute["key"] == key) return attribute["value"];
    }
    return nullptr;
  }
  static int64_t Ns(const nlohmann::json& span, const char* which) {
    return std::stoll(span[which].get<std::string>());
  }

  const CallWatch::TimePoint arrival_ = std::chrono::steady_clock::now();
  LoggedRequests logged_ = LoggedRequests::kAll;
  std::vector<std::string> bodies_;
  std::vector<std::string> lines_;
  Log log_{LogFormat::kJson, "test",
           [this](const std::string& line) { lines_.push_back(line); }};
  std::unique_ptr<SpanExporter> exporter_ = std::make_unique<SpanExporter>(
      SpanExporterOptions{.resource = {.service = "test", .instance = "1"},
                          .post =
                              [this](const std::string& body) {
                                bodies_.push_back(body);
                                return absl::OkStatus();
                              },
                          .interval = std::chrono::hours(1)});
};

TEST_F(RequestWatchTest, ARequestIsATraceBelowItsCallersSpan) {
  {
    auto call = Call(kCaller + std::string("01"));
    call->Read("id-2", "blue", "tiny", /*prompt_tokens=*/7);
    const auto request = call->Choice(0);
    const auto now = std::chrono::steady_clock::now();
    request->Placed(now + milliseconds(10), "w:1");
    request->Advanced(now + milliseconds(30), 1);
    request->Advanced(now + milliseconds(40), 4);
    request->Advanced(now + milliseconds(60), 2);
    Completion completion;
    completion.accepted_drafts = 4;
    request->Ended(now + milliseconds(60), completion, 7);
  }
  const auto spans = Spans();
  ASSERT_EQ(spans.size(), 6u);
  const nlohmann::json root = spans.find("generate")->second;
  EXPECT_EQ(root["parentSpanId"], "00f067aa0ba902b7");
  EXPECT_EQ(root["kind"], 2);
  EXPECT_EQ(Attribute(root, "bole.request_id")["stringValue"], "id-2");
  EXPECT_EQ(Attribute(root, "bole.tenant")["stringValue"], "blue");
  for (const char* name :
       {"admission", "queue", "prefill", "rounds", "delivery"}) {
    ASSERT_EQ(spans.count(name), 1u) << name;
    const nlohmann::json span = spans.find(name)->second;
    EXPECT_EQ(span["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736") << name;
    EXPECT_EQ(span["parentSpanId"], root["spanId"]) << name;
  }
  const nlohmann::json prefill = spans.find("prefill")->second;
  EXPECT_EQ(Ns(prefill, "endTimeUnixNano") - Ns(prefill, "startTimeUnixNano"),
            20'000'000);
  const nlohmann::json rounds = spans.find("rounds")->second;
  EXPECT_EQ(Ns(rounds, "startTimeUnixNano"), Ns(prefill, "endTimeUnixNano"));
  EXPECT_EQ(Attribute(rounds, "bole.rounds")["intValue"], "2");
  EXPECT_EQ(Attribute(rounds, "bole.tokens")["intValue"], "6");
  EXPECT_EQ(Attribute(rounds, "bole.accepted_drafts")["intValue"], "4");
}

TEST_F(RequestWatchTest, AMoveIsAnotherQueueAndPrefill) {
  {
    auto call = Call("", /*rate=*/1);
    call->Read("id", "", "tiny", 7);
    const auto request = call->Choice(0);
    const auto now = std::chrono::steady_clock::now();
    request->Placed(now, "w:1");
    request->Advanced(now, 1);
    request->Displaced(now, "lost");
    request->Placed(now, "w:2");
    request->Advanced(now, 1);
    request->Ended(now, Completion(), 2);
  }
  const auto spans = Spans();
  EXPECT_EQ(spans.count("queue"), 2u);
  EXPECT_EQ(spans.count("prefill"), 2u);
  EXPECT_EQ(spans.count("rounds"), 2u);
  EXPECT_FALSE(spans.find("generate")->second.contains("parentSpanId"));
  ASSERT_EQ(lines_.size(), 2u);
  const auto moved = nlohmann::json::parse(lines_[0]);
  EXPECT_EQ(moved["message"], "a request lost its place");
  EXPECT_EQ(moved["reason"], "lost");
  EXPECT_EQ(moved["worker"], "w:1");
}

TEST_F(RequestWatchTest, AWorkersSpansHaveThePhaseAsTheirParent) {
  std::vector<std::string> parents;
  {
    auto call = Call(kCaller + std::string("01"));
    call->Read("id", "", "tiny", 7);
    const auto request = call->Choice(0);
    const auto now = std::chrono::steady_clock::now();
    request->Placed(now, "w:1");
    parents.push_back(ToHex(request->span()->span_id));
    EXPECT_EQ(ToHex(request->span()->trace_id),
              "4bf92f3577b34da6a3ce929d0e0e4736");
    request->Advanced(now, 1);
    parents.push_back(ToHex(request->span()->span_id));
    request->Advanced(now, 1);
    EXPECT_EQ(ToHex(request->span()->span_id), parents.back());
    request->Ended(now, Completion(), 2);
  }
  const auto unsampled = Call(kCaller + std::string("00"));
  EXPECT_FALSE(unsampled->Choice(0)->span());

  const auto spans = Spans();
  EXPECT_EQ(spans.find("prefill")->second["spanId"], parents[0]);
  EXPECT_EQ(spans.find("rounds")->second["spanId"], parents[1]);
}

TEST_F(RequestWatchTest, TheCallerSaysWhetherItIsSampledOrElseTheRate) {
  for (const auto& [traceparent, rate] : std::map<std::string, double>{
           {kCaller + std::string("00"), 1}, {"", 0}, {"nonsense", 0}}) {
    auto call = Call(traceparent, rate);
    EXPECT_FALSE(call->is_sampled()) << traceparent;
    call->Read("id", "", "tiny", 7);
  }
  EXPECT_TRUE(Call(kCaller + std::string("01"), 0)->is_sampled());
  EXPECT_TRUE(Call("nonsense", 1)->is_sampled());
  EXPECT_EQ(Spans().size(), 2u);
}

TEST_F(RequestWatchTest, ARefusalIsAnErrorByItsReasonAlone) {
  Call(kCaller + std::string("01"))
      ->Refused({.reason = RefusalReason::kQueueTokens,
                 .message = "the prompt was: canary"});
  const auto spans = Spans();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans.find("generate")->second["status"]["message"],
            "queue_tokens");
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0].find("canary"), std::string::npos);
  const auto line = nlohmann::json::parse(lines_[0]);
  EXPECT_EQ(line["message"], "a request was refused");
  EXPECT_EQ(line["level"], "warning");
  EXPECT_EQ(line["request_id"], "id-1");
  EXPECT_EQ(line["tenant"], "red");
  EXPECT_EQ(line["reason"], "queue_tokens");
  EXPECT_EQ(line["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
}

TEST_F(RequestWatchTest, OfFailuresAloneTheLogHasThoseThatFailed) {
  logged_ = LoggedRequests::kFailures;
  for (const absl::Status& status :
       {absl::OkStatus(), Failed(FailureReason::kDeadline, "canary"),
        absl::InternalError("canary")}) {
    auto call = Call("");
    call->Read("id", "blue", "tiny", 7);
    const absl::StatusOr<Completion> end =
        status.ok() ? absl::StatusOr<Completion>(Completion()) : status;
    call->Choice(0)->Ended(arrival_, end, 3);
  }
  ASSERT_EQ(lines_.size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(lines_[0])["reason"], "deadline");
  EXPECT_EQ(nlohmann::json::parse(lines_[0])["output_tokens"], 3);
  EXPECT_EQ(nlohmann::json::parse(lines_[1])["reason"], "INTERNAL");
  EXPECT_EQ((lines_[0] + lines_[1]).find("canary"), std::string::npos);
}

TEST(RequestWatcherTest, AnEndpointThatNobodyCanSendToIsNamed) {
  for (const std::string endpoint : {"a:1", "ftp://a:1/x"}) {
    prometheus::Registry registry;
    const auto watcher =
        RequestWatcher::Start({.collector = {.endpoint = endpoint}}, registry,
                              /*note=*/nullptr);
    EXPECT_TRUE(absl::IsInvalidArgument(watcher.status())) << endpoint;
    EXPECT_NE(watcher.status().message().find(endpoint),
              absl::string_view::npos);
  }
}

}  // namespace
}  // namespace bole
