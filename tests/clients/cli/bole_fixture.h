// The program itself, with a scheduler that says what the test tells it to.
#ifndef BOLE_TESTS_CLIENTS_CLI_BOLE_FIXTURE_H_
#define BOLE_TESTS_CLIENTS_CLI_BOLE_FIXTURE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "proto/bole.pb.h"
#include "tests/clients/cli/process.h"
#include "tests/clients/fake_bole_service.h"

namespace bole::testing_support {

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

}  // namespace bole::testing_support

#endif  // BOLE_TESTS_CLIENTS_CLI_BOLE_FIXTURE_H_
