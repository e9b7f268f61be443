// The commands that answer: generate and chat.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "common/cost_table.h"
#include "common/step_costs.h"
#include "nlohmann/json.hpp"
#include "scheduler_service/door/grpc/refusal_status.h"
#include "scheduler_service/jobs/refusal.h"
#include "tests/clients/cli/bole_fixture.h"

namespace bole::testing_support {
namespace {

using testing::HasSubstr;
using testing::Not;

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

TEST_F(BoleTest, TargetsAreSentIfTheyAreGiven) {
  Process bole = Start({"generate", "hi", "--tpot-ms", "20"});
  EXPECT_EQ(bole.Wait(), 0);
  EXPECT_FALSE(OnlyRequest().targets().has_time_to_first_token_ms());
  EXPECT_EQ(OnlyRequest().targets().time_per_output_token_ms(), 20u);

  EXPECT_EQ(Start({"generate", "hi"}).Wait(), 0);
  EXPECT_FALSE(service().requests().back().has_targets());
  EXPECT_EQ(Start({"generate", "hi", "--ttft-ms", "0"}).Wait(), 2);
}

TEST_F(BoleTest, TuneReadsATableAndAsksNoServer) {
  const std::string table = testing::TempDir() + "/costs.json";
  const std::vector<StepCosts::Term> terms = {
      {.name = "forward",
       .axes = {{Quantity::kRows, {1, 64}}},
       .microseconds = {1000, 1000}}};
  std::ofstream(table) << ToJson(
      {.of = {.model = "m", .device = "d"}, .costs = StepCosts(terms, {})});
  const std::string svg = testing::TempDir() + "/tune.svg";
  Process bole({"clients/cli/bole", "tune", table, "--acceptance", "3,6.9",
                "--requests", "1,2", "--svg", svg},
               "", Streams::kPipes);

  EXPECT_EQ(bole.Wait(), 0) << bole.err();
  EXPECT_THAT(bole.out(), HasSubstr("mean acceptance 6.9"));
  EXPECT_THAT(bole.out(), HasSubstr("m on d"));
  EXPECT_THAT(bole.out(), HasSubstr("What to set"));
  EXPECT_TRUE(std::ifstream(svg).good());
  Process wrong({"clients/cli/bole", "tune", table, "--acceptance", "12"}, "",
                Streams::kPipes);
  EXPECT_EQ(wrong.Wait(), 2);
  EXPECT_THAT(wrong.err(), HasSubstr("12"));
  Process missing({"clients/cli/bole", "tune", table + ".none"}, "",
                  Streams::kPipes);
  EXPECT_EQ(missing.Wait(), 2);
  EXPECT_THAT(missing.err(), HasSubstr(table + ".none"));
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

TEST_F(BoleTest, ChoicesArePrintedOneAfterTheOtherHoweverTheyCome) {
  FakeAnswer first = AnswerOf({"He", "llo"});
  FakeAnswer second = AnswerOf({"Good", "bye"});
  second.responses[0].mutable_chunk()->set_index(1);
  second.responses[1].mutable_chunk()->set_index(1);
  second.responses[2].mutable_complete()->set_index(1);
  FakeAnswer both;
  for (int i = 0; i < 3; ++i) {
    both.responses.push_back(second.responses[i]);
    both.responses.push_back(first.responses[i]);
  }
  service().SetAnswers({both});

  Process bole = Start({"generate", "hi", "--n", "2"});

  EXPECT_EQ(bole.Wait(), 0);
  EXPECT_EQ(OnlyRequest().n(), 2u);
  EXPECT_EQ(bole.out(), "--- choice 0\nHello\n--- choice 1\nGoodbye");
  EXPECT_EQ(Start({"generate", "hi", "--n", "3"}).Wait(), 1) << "no third end";
}

TEST_F(BoleTest, EchoPrintsThePromptBeforeTheAnswer) {
  FakeAnswer answer = AnswerOf({"lo"});
  answer.responses[0].mutable_chunk()->mutable_prompt()->set_text("Hel");
  service().SetAnswers({answer});

  Process bole = Start({"generate", "--raw", "Hel", "--echo"});

  EXPECT_EQ(bole.Wait(), 0);
  EXPECT_TRUE(OnlyRequest().echo());
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

TEST_F(BoleTest, ChatSaysAfterAnAnswerWhatWasChosen) {
  FakeAnswer answer = AnswerOf({"Hel"});
  answer.responses.back()
      .mutable_complete()
      ->mutable_speculation()
      ->set_chain_rounds(2);
  service().SetAnswers({answer});

  Process bole = Start({"chat"}, "first\n");

  EXPECT_EQ(bole.Wait(), 0);
  EXPECT_EQ(bole.out(), "Hel\n");
  EXPECT_THAT(bole.err(), HasSubstr("speculation: chain in 2 of 2 rounds"));
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

}  // namespace
}  // namespace bole::testing_support
