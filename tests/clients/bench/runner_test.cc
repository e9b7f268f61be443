#include "clients/bench/runner.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "clients/bench/grpc_transport.h"
#include "clients/bench/report.h"
#include "clients/sdk/client.h"
#include "common/sha256.h"
#include "tests/clients/fake_bole_service.h"

namespace bole::bench {
namespace {

using testing_support::AnswerOf;
using testing_support::FakeAnswer;
using testing_support::FakeServer;
using testing_support::QueueIsFull;

Workload Asks(const std::vector<std::string>& questions) {
  Session session;
  for (const std::string& question : questions) {
    Turn turn;
    turn.input = std::vector<Message>{{"user", question}};
    session.turns.push_back(turn);
  }
  return {.name = "test", .format = "test", .sessions = {session}};
}

class RunnerTest : public testing::Test {
 protected:
  RunnerOptions Options() {
    RunnerOptions options;
    options.transport =
        std::make_shared<GrpcTransport>(std::vector<std::shared_ptr<Client>>{
            *Client::Create({.address = server_.address()})});
    return options;
  }

  FakeServer server_;
};

FakeAnswer Refusal() { return QueueIsFull("2 requests wait", 30); }

TEST_F(RunnerTest, ATurnFollowsTheModelsOwnAnswer) {
  server_.service().SetAnswers({AnswerOf({"He", "llo"}), AnswerOf({"Bye"})});
  const Workload workload = Asks({"one", "two"});

  const RunResult result = Runner(Options()).Run(workload, {.arrivals = {0}});

  ASSERT_EQ(result.records.size(), 2u);
  EXPECT_TRUE(result.records[0].status.ok());
  EXPECT_EQ(OutputTokens(result.records[0]), 2);
  EXPECT_EQ(result.records[1].turn, 1);
  EXPECT_GE(result.records[1].scheduled, result.records[0].end);
  const std::vector<v1::GenerateRequest> requests =
      server_.service().requests();
  ASSERT_EQ(requests.size(), 2u);
  ASSERT_EQ(requests[1].chat().messages_size(), 3);
  EXPECT_EQ(requests[1].chat().messages(1).content(), "Hello");
}

TEST_F(RunnerTest, TimesAreInTheirOrder) {
  server_.service().SetAnswers({AnswerOf({"a", "b", "c"})});
  const Workload workload = Asks({"one"});

  const RunResult result =
      Runner(Options()).Run(workload, {.arrivals = {0, 0.02, 0.04}});

  ASSERT_EQ(result.records.size(), 3u);
  for (const RequestRecord& record : result.records) {
    EXPECT_LE(record.scheduled, record.sent);
    double last = record.sent;
    for (const TokenArrival& arrival : record.arrivals) {
      EXPECT_LE(last, arrival.seconds);
      last = arrival.seconds;
    }
    EXPECT_LE(last, record.end);
  }
}

TEST_F(RunnerTest, ARefusedRequestIsARecordWithItsReason) {
  server_.service().SetAnswers({Refusal()});
  const Workload workload = Asks({"one", "two"});

  const RunResult result = Runner(Options()).Run(workload, {.arrivals = {0}});

  ASSERT_EQ(result.records.size(), 1u);
  EXPECT_TRUE(IsRefusal(result.records[0]));
  EXPECT_EQ(FailureReason(result.records[0]),
            "RESOURCE_EXHAUSTED QUEUE_REQUESTS");
  EXPECT_EQ(result.num_dropped, 1);
}

TEST_F(RunnerTest, ARetryComesAfterTheTimeThatTheServerNamed) {
  server_.service().SetAnswers({Refusal(), Refusal(), AnswerOf({"a"})});
  const Workload workload = Asks({"one"});
  RunnerOptions options = Options();
  options.max_retries = 5;

  const RunResult result =
      Runner(std::move(options)).Run(workload, {.arrivals = {0}});

  ASSERT_EQ(result.records.size(), 1u);
  EXPECT_TRUE(result.records[0].status.ok());
  EXPECT_EQ(result.records[0].retries, 2);
  EXPECT_EQ(result.records[0].scheduled, 0);
  EXPECT_GE(result.records[0].sent, 0.06);
  const std::vector<v1::GenerateRequest> requests =
      server_.service().requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[2].chat().messages_size(), 1);
}

// As gRPC does to calls that reach a server which has begun to stop.
TEST_F(RunnerTest, ACallThatNobodySawIsSentAgain) {
  FakeAnswer unseen;
  unseen.status = {grpc::StatusCode::CANCELLED, ""};
  server_.service().SetAnswers({unseen, AnswerOf({"a"})});
  const Workload workload = Asks({"one"});
  RunnerOptions options = Options();
  options.max_retries = 5;

  const RunResult result =
      Runner(std::move(options)).Run(workload, {.arrivals = {0}});

  ASSERT_EQ(result.records.size(), 1u);
  EXPECT_TRUE(result.records[0].status.ok()) << result.records[0].status;
  EXPECT_EQ(result.records[0].retries, 1);
}

TEST_F(RunnerTest, ABrokenStreamGoesOnFromWhatHadCome) {
  FakeAnswer first = AnswerOf({"He", "l"});
  first.responses.pop_back();
  first.status = {grpc::StatusCode::UNAVAILABLE, "the worker is gone"};
  FakeAnswer second = AnswerOf({"l"});
  second.responses.pop_back();
  second.status = first.status;
  server_.service().SetAnswers({first, second, AnswerOf({"o"}), AnswerOf({})});
  const Workload workload = Asks({"one", "two"});
  RunnerOptions options = Options();
  options.max_retries = 5;

  const RunResult result =
      Runner(std::move(options)).Run(workload, {.arrivals = {0}});

  ASSERT_EQ(result.records.size(), 2u);
  const RequestRecord& record = result.records[0];
  EXPECT_TRUE(record.status.ok());
  EXPECT_EQ(record.resumes, 2);
  EXPECT_EQ(record.retries, 0);
  EXPECT_EQ(OutputTokens(record), 4);
  EXPECT_LE(record.sent, record.arrivals[0].seconds);
  const std::vector<v1::GenerateRequest> requests =
      server_.service().requests();
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(requests[0].resume_size(), 0);
  EXPECT_EQ(requests[1].resume(0).output_ids_size(), 2);
  EXPECT_EQ(requests[2].resume(0).output_ids_size(), 3);
  EXPECT_EQ(requests[3].resume_size(), 0);
  EXPECT_EQ(requests[3].chat().messages(1).content(), "Hello");
  EXPECT_EQ(record.output_sha256, Sha256Hex("100,101,100,100"));
}

TEST_F(RunnerTest, AnInterruptedRunHasWhatThereIs) {
  FakeAnswer endless = AnswerOf({"a", "b"});
  endless.responses.pop_back();
  endless.hang = true;
  server_.service().SetAnswers({AnswerOf({"a"}), endless});
  const Workload workload = Asks({"one"});
  Runner* to_interrupt = nullptr;
  RunnerOptions options = Options();
  options.progress_seconds = 0.001;
  options.on_progress = [&](const Progress& now) {
    if (now.num_ended == 1 && now.tokens == 3) to_interrupt->Interrupt();
  };
  Runner runner(std::move(options));
  to_interrupt = &runner;

  const RunResult result =
      runner.Run(workload, {.concurrency = 1, .num_instances = 100});

  EXPECT_TRUE(result.interrupted);
  ASSERT_EQ(result.records.size(), 2u);
  EXPECT_TRUE(absl::IsCancelled(result.records[1].status));
  EXPECT_EQ(OutputTokens(result.records[1]), 2);
}

TEST_F(RunnerTest, CallsEndAtTheirTimeout) {
  server_.service().SetAnswers({{.responses = {}, .hang = true}});
  const Workload workload = Asks({"one"});
  RunnerOptions options = Options();
  options.timeout_seconds = 0.05;

  const RunResult result =
      Runner(std::move(options)).Run(workload, {.arrivals = {0}});

  ASSERT_EQ(result.records.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(result.records[0].status));
}

TEST_F(RunnerTest, AHundredStreamsRunSideBySide) {
  server_.service().SetAnswers({AnswerOf({"a", "b", "c"})});
  const Workload workload = Asks({"one"});

  const RunResult result =
      Runner(Options()).Run(workload, {.arrivals = std::vector<double>(100)});

  const Report report = MakeReport(result.records, {}, result.num_dropped);
  EXPECT_EQ(report.num_succeeded, 100);
  EXPECT_EQ(report.output_tokens, 300);
  EXPECT_EQ(report.itl.count(), 200u);
}

}  // namespace
}  // namespace bole::bench
