// The commands that ask about text and the server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/clients/cli/bole_fixture.h"

namespace bole::testing_support {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::TempDir;

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

TEST_F(BoleTest, DebugDumpWritesRoundsAndRoundsDrawsThem) {
  const std::string lines =
      "{\"flight_record\":\"bole-scheduler\",\"version\":\"1\",\"reason\":"
      "\"asked\"}\n{\"n\":0,\"outcome\":\"done\",\"engine_seconds\":0.25}\n";
  service().rounds.set_json_lines(lines);
  const std::string path = TempDir() + "/rounds.jsonl";
  const std::string svg = TempDir() + "/rounds.svg";

  Process dump = Start({"debug", "dump"});
  EXPECT_EQ(dump.Wait(), 0);
  EXPECT_EQ(dump.out(), lines);
  Process to_file = Start({"debug", "dump", "--out", path});
  EXPECT_EQ(to_file.Wait(), 0);
  EXPECT_EQ(to_file.out(), "");

  Process rounds({"clients/cli/bole", "debug", "rounds", path, "--svg", svg},
                 "", Streams::kPipes);
  EXPECT_EQ(rounds.Wait(), 0);
  EXPECT_THAT(rounds.out(), HasSubstr("engine          250.000"));
  std::ifstream drawn(svg);
  std::string first;
  EXPECT_TRUE(std::getline(drawn, first));
  EXPECT_THAT(first, testing::StartsWith("<svg "));
}

TEST_F(BoleTest, DebugRoundsNamesAFileThatIsNoneOfRounds) {
  const std::string path = TempDir() + "/other.jsonl";
  std::ofstream(path) << "{\"n\":1}\n";
  for (const std::string& file : {path, path + ".none"}) {
    Process rounds({"clients/cli/bole", "debug", "rounds", file}, "",
                   Streams::kPipes);
    EXPECT_EQ(rounds.Wait(), 2);
    EXPECT_THAT(rounds.err(), HasSubstr(file));
  }
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

TEST_F(BoleTest, InfoTellsHowWorkersAreShared) {
  Process alone = Start({"info"});
  EXPECT_EQ(alone.Wait(), 0);
  EXPECT_THAT(alone.out(), Not(HasSubstr("scheduler")));
  peer::v1::GetSharesResponse& shares = server_.peers().shares.emplace();
  peer::v1::ModelShare& share = *shares.add_models();
  share.set_known(true);
  share.set_workers(4);
  share.set_held(3);
  peer::v1::Scheduler& silent = *shares.add_schedulers();
  silent.set_state(peer::v1::Scheduler::SILENT);

  Process bole = Start({"info"});
  Process json = Start({"info", "--json"});
  EXPECT_EQ(bole.Wait(), 0);
  EXPECT_THAT(bole.out(), HasSubstr("0 of 4 workers; 3 held, "));
  EXPECT_THAT(bole.out(), HasSubstr(", silent\n"));
  EXPECT_EQ(json.Wait(), 0);
  const nlohmann::json info = nlohmann::json::parse(json.out());
  EXPECT_EQ(info["sharing"]["models"][0]["held"], 3);
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

TEST_F(BoleTest, HealthOfNamedServices) {
  server_.SetServing(false);
  Process process = Start({"health", "--json", "--service", ""});
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_EQ(process.out(), "{\"\":\"SERVING\"}\n");

  Process not_serving = Start({"health", "--service", "bole.v1.BoleService"});
  EXPECT_EQ(not_serving.Wait(), 1);
  EXPECT_EQ(not_serving.out(), "bole.v1.BoleService   NOT_SERVING\n");

  Process unknown = Start({"health", "--service", "bole.worker.v1.Worker"});
  EXPECT_EQ(unknown.Wait(), 1);
  EXPECT_THAT(unknown.err(), HasSubstr("there is no such thing"));
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
