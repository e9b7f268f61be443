// Clients of a scheduler that says what a test tells it to.
#ifndef BOLE_TESTS_CLIENTS_SDK_CLIENT_FIXTURE_H_
#define BOLE_TESTS_CLIENTS_SDK_CLIENT_FIXTURE_H_

#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "clients/sdk/call_error.h"
#include "clients/sdk/client.h"
#include "clients/sdk/requests.h"
#include "gtest/gtest.h"
#include "tests/clients/fake_bole_service.h"

namespace bole::testing_support {

// Retries after a few milliseconds.
inline ClientOptions Quick(const std::string& address) {
  return {.address = address,
          .retry = {.initial_backoff = std::chrono::milliseconds(1),
                    .max_backoff = std::chrono::milliseconds(4)},
          .own_connection = true};
}

class ClientTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> NewClient(ClientOptions options) {
    auto client = Client::Create(options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  std::unique_ptr<Client> NewClient() {
    return NewClient(Quick(server_.address()));
  }

  size_t num_requests() { return server_.service().requests().size(); }

  // How the first answer that is asked for ends.
  CallError ErrorOf(const CallOptions& options = {}) {
    const auto client = NewClient();
    const auto stream = client->Generate(TextRequest("hi"), options);
    while (stream->Next() != nullptr) {
    }
    return ReadError(stream->status());
  }

  FakeServer server_;
};

// An async answer, and what came of it.
struct Gathered {
  std::string text;
  std::promise<absl::Status> done;
  GenerationStats stats;

  GenerateHandlers Handlers() {
    return {.on_event =
                [this](const v1::GenerateResponse& response) {
                  text += response.chunk().text();
                },
            .on_done =
                [this](const absl::Status& status, const GenerationStats& s) {
                  stats = s;
                  done.set_value(status);
                }};
  }
};

}  // namespace bole::testing_support

#endif  // BOLE_TESTS_CLIENTS_SDK_CLIENT_FIXTURE_H_
