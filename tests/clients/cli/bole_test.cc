// The program itself, with a scheduler that says what the test tells it to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <sstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "scheduler_service/door/grpc/refusal_status.h"
#include "scheduler_service/jobs/refusal.h"
#include "tests/clients/cli/fake_bole_service.h"
#include "tests/clients/cli/process.h"

namespace bole::testing_support {
namespace {

using testing::HasSubstr;
using testing::Not;

class BoleTest : public testing::Test {
 protected:
  BoleTest() { service().SetAnswers({AnswerOf({"Hel", "lo.\n", "Bye"})}); }

  FakeBoleService& service() { return server_.service(); }

  // A process that talks to the server.
  Process Start(std::vector<std::string> command, std::string_view input = "",
                Streams streams = Streams::kPipes) {
    command.insert(command.begin(), "clients/cli/bole");
    command.insert(command.end(), {"--server", server_.address()});
    return Process(command, input, streams);
  }

  v1::GenerateRequest OnlyRequest() {
    const std::vector<v1::GenerateRequest> requests = service().requests();
    EXPECT_EQ(requests.size(), 1u);
    return requests.empty() ? v1::GenerateRequest() : requests[0];
  }

  FakeServer server_;
};

TEST_F(BoleTest, GenerateWritesTheTextToAPipeByteForByte) {
  Process bole = Start({"generate", "hi"});

  EXPECT_EQ(bole.Wait(), 0);
  EXPECT_EQ(bole.out(), "Hello.\nBye");
  EXPECT_THAT(bole.err(), HasSubstr("output tokens         3\n"));
  EXPECT_THAT(bole.err(), Not(HasSubstr("\033")));
}

TEST_F(BoleTest, ThePromptIsAChatTurnIfTheModelHasATemplate) {
  Process bole = Start({"generate", "hi", "--system", "Be brief."});

  EXPECT_EQ(bole.Wait(), 0);
  const v1::ChatInput chat = OnlyRequest().chat();
  ASSERT_EQ(chat.messages_size(), 2);
  EXPECT_EQ(chat.messages(0).role(), "system");
  EXPECT_EQ(chat.messages(0).content(), "Be brief.");
  EXPECT_EQ(chat.messages(1).role(), "user");
  EXPECT_EQ(chat.messages(1).content(), "hi");
}

TEST_F(BoleTest, ThePromptIsTextIfTheModelHasNoTemplate) {
  service().model.set_has_chat_template(false);

  Process bole = Start({"generate", "hi"});

  EXPECT_EQ(bole.Wait(), 0);
  EXPECT_EQ(OnlyRequest().text(), "hi");
}

TEST_F(BoleTest, RawSendsStdinAsItIs) {
  Process bole = Start({"generate", "--raw"}, "def f(x):\n  ");

  EXPECT_EQ(bole.Wait(), 0);
  EXPECT_EQ(OnlyRequest().text(), "def f(x):\n  ");
}

TEST_F(BoleTest, JsonIsTheCompleteAnswerInOneObject) {
  Process bole = Start({"generate", "hi", "--json"});

  EXPECT_EQ(bole.Wait(), 0);
  EXPECT_FALSE(OnlyRequest().stream());
  const nlohmann::json answer = nlohmann::json::parse(bole.out());
  EXPECT_EQ(answer["complete"]["text"], "Hello.\nBye");
  EXPECT_EQ(answer["complete"]["output_ids"], nlohmann::json({100, 101, 102}));
  EXPECT_EQ(bole.err(), "");
}

TEST_F(BoleTest, StreamJsonIsALineForEachResponse) {
  Process bole = Start({"generate", "hi", "--stream-json"});

  EXPECT_EQ(bole.Wait(), 0);
  std::istringstream lines(bole.out());
  std::vector<nlohmann::json> responses;
  for (std::string line; std::getline(lines, line);) {
    responses.push_back(nlohmann::json::parse(line));
  }
  ASSERT_EQ(responses.size(), 4u);
  EXPECT_EQ(responses[0]["chunk"]["text"], "Hel");
  EXPECT_EQ(responses[3]["complete"]["finish_reason"], "FINISH_REASON_LENGTH");
}

TEST_F(BoleTest, LogprobsWithoutJsonIsWrongUsage) {
  Process bole = Start({"generate", "hi", "--logprobs", "2"});

  EXPECT_EQ(bole.Wait(), 2);
  EXPECT_THAT(bole.err(), HasSubstr("--json"));
  EXPECT_TRUE(service().requests().empty());
}

TEST_F(BoleTest, TextThatOnlyTheCompleteAnswerHasIsPrinted) {
  FakeAnswer answer = AnswerOf({"Hel", "lo"});
  answer.responses[1].mutable_chunk()->clear_text();
  service().SetAnswers({answer});

  Process bole = Start({"generate", "hi"});

  EXPECT_EQ(bole.Wait(), 0);
  EXPECT_EQ(bole.out(), "Hello");
}

TEST_F(BoleTest, AnAnswerWithoutAnEndIsAnError) {
  FakeAnswer answer = AnswerOf({"Hel"});
  answer.responses.pop_back();
  service().SetAnswers({answer});

  Process bole = Start({"generate", "hi"});

  EXPECT_EQ(bole.Wait(), 1);
  EXPECT_EQ(bole.out(), "Hel");
  EXPECT_THAT(bole.err(), HasSubstr("the answer has no end"));
}

TEST_F(BoleTest, AFullQueueSaysWhenToComeAgain) {
  service().SetAnswers({QueueIsFull("256 are waiting", 750)});

  Process bole = Start({"generate", "hi", "--json"});

  EXPECT_EQ(bole.Wait(), 3);
  EXPECT_EQ(bole.err(),
            "bole: the server has no room: 256 are waiting; try again in 750 "
            "ms\n");
  EXPECT_EQ(bole.out(),
            "{\"error\":{\"code\":\"RESOURCE_EXHAUSTED\",\"message\":\"256 are "
            "waiting\",\"reason\":\"QUEUE_REQUESTS\",\"metadata\":{\"count\":"
            "\"2\",\"max\":\"2\"},\"retry_after_ms\":750}}\n");
}

TEST_F(BoleTest, AWrongFieldIsNamed) {
  FakeAnswer refused;
  refused.status = ToGrpcStatus(Refusal{.reason = RefusalReason::kInvalid,
                                        .message = "top_p is 2",
                                        .field = "sampling_params.top_p"});
  service().SetAnswers({refused});

  Process bole = Start({"generate", "hi", "--json"});

  EXPECT_EQ(bole.Wait(), 1);
  EXPECT_EQ(bole.err(),
            "bole: the server cannot accept the request: top_p is 2\n"
            "  field sampling_params.top_p\n");
  EXPECT_THAT(bole.out(), HasSubstr("[{\"field\":\"sampling_params.top_p\","));
}

TEST_F(BoleTest, AServerWithoutAWorkerIsUnavailableInItsOwnWords) {
  service().SetAnswers(
      {{.responses = {},
        .status = {grpc::StatusCode::UNAVAILABLE, "no worker"}}});

  Process bole = Start({"generate", "hi"});

  EXPECT_EQ(bole.Wait(), 3);
  EXPECT_EQ(bole.err(),
            "bole: " + server_.address() + " is not available: no worker\n");
}

TEST_F(BoleTest, TheTimeoutIsTheDeadlineOfTheCall) {
  FakeAnswer answer = AnswerOf({"Hel"});
  answer.responses.pop_back();
  answer.hang = true;
  service().SetAnswers({answer});

  Process bole = Start({"generate", "hi", "--timeout", "0.5"});

  EXPECT_EQ(bole.Wait(), 4);
  EXPECT_EQ(bole.out(), "Hel");
  EXPECT_THAT(bole.err(), HasSubstr("the time is up (--timeout 0.5)"));
  service().WaitForCancelled(1);
}

TEST_F(BoleTest, CtrlCCancelsTheCall) {
  FakeAnswer answer = AnswerOf({"Hel"});
  answer.responses.pop_back();
  answer.hang = true;
  service().SetAnswers({answer});
  Process bole = Start({"generate", "hi"});
  ASSERT_TRUE(bole.WaitFor("Hel"));

  bole.Signal(SIGINT);

  EXPECT_EQ(bole.Wait(), 130);
  EXPECT_EQ(bole.err(), "bole: cancelled\n");
  service().WaitForCancelled(1);
}

TEST_F(BoleTest, NothingListeningSaysHowToStartAServer) {
  // Port 1 needs rights that no server of ours has.
  const std::vector<std::string> command = {"clients/cli/bole", "generate",
                                            "hi", "--server", "127.0.0.1:1"};

  Process bole(command, "", Streams::kPipes);

  EXPECT_EQ(bole.Wait(), 3);
  EXPECT_EQ(bole.err(),
            "bole: nothing answers at 127.0.0.1:1: Connection refused\nstart a "
            "server with ./quickstart.sh --serve, or name one with --server\n");
}

TEST_F(BoleTest, WrongFlagsAreWrongUsage) {
  EXPECT_EQ(Start({"generate", "hi", "--raw", "--system", "x"}).Wait(), 2);
  EXPECT_EQ(Start({"generate", "hi", "--top-p", "much"}).Wait(), 2);
  EXPECT_EQ(Start({"sing"}).Wait(), 2);
  EXPECT_EQ(Start({"generate", "--help"}).Wait(), 0);
}

TEST_F(BoleTest, TextThatIsNotUtf8IsWrongUsage) {
  Process generate = Start({"generate"}, "a\xFF");
  Process chat = Start({"chat"}, "a\xFF\n");

  EXPECT_EQ(generate.Wait(), 2);
  EXPECT_EQ(generate.err(), "bole: PROMPT is not UTF-8\n");
  EXPECT_EQ(chat.Wait(), 2);
  EXPECT_TRUE(service().requests().empty());
}

TEST_F(BoleTest, ATerminalGetsNoControlCharactersOfTheModel) {
  service().SetAnswers({AnswerOf({"a\033]0;title\007",
                                  "b\xC2\x9B"
                                  "2J"})});

  Process bole = Start({"generate", "hi"}, "", Streams::kTerminal);

  EXPECT_EQ(bole.Wait(), 0);
  EXPECT_THAT(bole.out(), HasSubstr("a\\x1b]0;title\\x07"));
  EXPECT_THAT(bole.out(), HasSubstr("b\\u009b2J"));
  EXPECT_THAT(bole.out(), Not(HasSubstr("\033]")));
  EXPECT_THAT(bole.out(), Not(HasSubstr("\xC2\x9B")));
}

TEST_F(BoleTest, ATerminalShowsProgressAndTakesItAway) {
  Process bole = Start({"generate", "hi"}, "", Streams::kTerminal);

  EXPECT_EQ(bole.Wait(), 0);
  const size_t progress = bole.out().rfind("3 tokens, ");
  ASSERT_NE(progress, std::string::npos);
  const size_t cleared = bole.out().find("\r\033[K", progress);
  ASSERT_NE(cleared, std::string::npos);
  EXPECT_LT(cleared, bole.out().find("prompt tokens"));
}

TEST_F(BoleTest, ChatInAPipeKeepsTheConversation) {
  service().SetAnswers({AnswerOf({"one"}), AnswerOf({"two"})});

  Process bole = Start({"chat"}, "first\n\nsecond\n/reset\nthird\n");

  EXPECT_EQ(bole.Wait(), 0);
  EXPECT_EQ(bole.out(), "one\ntwo\ntwo\n");
  EXPECT_EQ(bole.err(), "");
  const std::vector<v1::GenerateRequest> requests = service().requests();
  ASSERT_EQ(requests.size(), 3u);
  const v1::ChatInput second = requests[1].chat();
  ASSERT_EQ(second.messages_size(), 3);
  EXPECT_EQ(second.messages(1).role(), "assistant");
  EXPECT_EQ(second.messages(1).content(), "one");
  EXPECT_EQ(requests[2].chat().messages_size(), 1);
}

TEST_F(BoleTest, ChatInAPipeEndsWithTheFirstError) {
  service().SetAnswers(
      {{.responses = {},
        .status = {grpc::StatusCode::INVALID_ARGUMENT, "too long"}}});

  Process bole = Start({"chat"}, "first\nsecond\n");

  EXPECT_EQ(bole.Wait(), 1);
  EXPECT_EQ(service().requests().size(), 1u);
}

TEST_F(BoleTest, CtrlCInChatEndsTheAnswerAndNotTheConversation) {
  FakeAnswer hanging = AnswerOf({"Hel"});
  hanging.responses.pop_back();
  hanging.hang = true;
  service().SetAnswers({hanging, AnswerOf({"two"})});
  Process bole = Start({"chat"}, "first\n", Streams::kTerminal);
  ASSERT_TRUE(bole.WaitFor("Hel"));

  bole.Type("\003");
  ASSERT_TRUE(bole.WaitFor("bole: cancelled"));
  ASSERT_TRUE(bole.WaitFor("> "));
  bole.Type("second\n");
  ASSERT_TRUE(bole.WaitFor("two"));
  ASSERT_TRUE(bole.WaitFor("> "));
  bole.Type("\003");

  EXPECT_EQ(bole.Wait(), 130);
  const std::vector<v1::GenerateRequest> requests = service().requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].chat().messages(1).content(), "Hel");
}

TEST_F(BoleTest, TokenizeListsIdsAndInJsonTheirTexts) {
  Process plain = Start({"tokenize", "Hi"});
  Process json = Start({"tokenize", "--json", "-"}, "Hi");

  EXPECT_EQ(plain.Wait(), 0);
  EXPECT_EQ(plain.out(), "72 105\n");
  EXPECT_EQ(json.Wait(), 0);
  EXPECT_EQ(json.out(), "{\"input_ids\":[72,105],\"pieces\":[\"H\",\"i\"]}\n");
}

TEST_F(BoleTest, DetokenizeJoinsIds) {
  Process bole = Start({"detokenize", "72", "105"});

  EXPECT_EQ(bole.Wait(), 0);
  EXPECT_EQ(bole.out(), "Hi\n");
}

TEST_F(BoleTest, InfoNamesModelWorkerAndWhatIsWrong) {
  service().workers.add_workers()->set_last_error("connection refused");
  service().audit.add_problems()->set_text("slot 3 is lost");
  service().load.mutable_total()->set_waiting_requests(5);

  Process bole = Start({"info"});

  EXPECT_EQ(bole.Wait(), 0);
  EXPECT_THAT(bole.out(), HasSubstr("model                 fake\n"));
  EXPECT_THAT(bole.out(), HasSubstr("not connected: connection refused\n"));
  EXPECT_THAT(bole.out(), HasSubstr("audit                 slot 3 is lost\n"));
  EXPECT_THAT(bole.out(), HasSubstr("0 running, 5 waiting"));
}

TEST_F(BoleTest, AModelIsAskedForByItsName) {
  service().model.set_synthetic(true);

  Process info = Start({"info", "--model", "other"});
  Process answer = Start({"generate", "hi", "--model", "other"});

  EXPECT_EQ(info.Wait(), 0);
  EXPECT_THAT(info.out(),
              HasSubstr("model                 other, synthetic\n"));
  EXPECT_EQ(answer.Wait(), 0);
  EXPECT_EQ(OnlyRequest().model(), "other");
}

TEST_F(BoleTest, InfoInJsonHasAllOfIt) {
  service().load.mutable_total()->set_running_requests(2);
  Process bole = Start({"info", "--json"});

  EXPECT_EQ(bole.Wait(), 0);
  const nlohmann::json info = nlohmann::json::parse(bole.out());
  EXPECT_EQ(info["models"][0]["model"], "fake");
  EXPECT_EQ(info["server"]["draining"], false);
  EXPECT_EQ(info["workers"].size(), 0u);
  EXPECT_EQ(info["load"]["total"]["running_requests"], 2);
  EXPECT_EQ(info["problems"].size(), 0u);
}

TEST_F(BoleTest, HealthIsTheExitCode) {
  Process serving = Start({"health"});
  EXPECT_EQ(serving.Wait(), 0);
  EXPECT_THAT(serving.out(), HasSubstr("bole.v1.BoleService   SERVING\n"));

  server_.SetServing(false);
  Process not_serving = Start({"health", "--json"});
  EXPECT_EQ(not_serving.Wait(), 1);
  EXPECT_EQ(not_serving.out(),
            "{\"\":\"SERVING\",\"bole.v1.BoleService\":\"NOT_SERVING\"}\n");
}

TEST_F(BoleTest, HealthWaitsUntilTheServiceServes) {
  server_.SetServing(false);
  Process bole = Start({"health", "--wait", "100"});

  server_.SetServing(true);

  EXPECT_EQ(bole.Wait(), 0);
}

TEST_F(BoleTest, HealthWaitsNoLongerThanItIsTold) {
  server_.SetServing(false);

  EXPECT_EQ(Start({"health", "--wait", "0.2"}).Wait(), 1);
}

}  // namespace
}  // namespace bole::testing_support
