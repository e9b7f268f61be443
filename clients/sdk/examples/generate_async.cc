// Several answers at a time from gRPC's threads, one of which is given up.
//
// usage: generate_async; the environment's BOLE_SERVER names the server.
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "clients/sdk/client.h"
#include "clients/sdk/examples/connect.h"
#include "clients/sdk/requests.h"

namespace {

// An answer on its way. The handlers use it until `done` is set.
struct Answer {
  std::string text;
  std::promise<absl::Status> done;

  bole::GenerateHandlers Handlers() {
    return {
        .on_event =
            [this](const bole::v1::GenerateResponse& response) {
              text += response.has_complete() ? response.complete().text()
                                              : response.chunk().text();
            },
        .on_done =
            [this](const absl::Status& status, const bole::GenerationStats&) {
              done.set_value(status);
            }};
  }
};

}  // namespace

int main() {
  const std::vector<std::string> prompts = {"def add(a, b):\n", "import "};
  // They outlive the client, which may call the handlers until it is gone.
  std::vector<Answer> answers(prompts.size());
  Answer given_up;
  const std::unique_ptr<bole::Client> client = Connect();
  for (size_t i = 0; i < prompts.size(); ++i) {
    bole::v1::GenerateRequest request = bole::TextRequest(prompts[i]);
    request.mutable_sampling_params()->set_temperature(0);
    request.mutable_sampling_params()->set_max_tokens(24);
    client->GenerateAsync(request, answers[i].Handlers());
  }
  bole::v1::GenerateRequest endless = bole::TextRequest("class Stack:\n");
  endless.mutable_sampling_params()->set_ignore_eos(true);
  client->GenerateAsync(endless, given_up.Handlers())->Cancel();

  bool failed = false;
  for (Answer& answer : answers) {
    const absl::Status status = answer.done.get_future().get();
    std::cout << "--\n" << answer.text << "\n";
    if (!status.ok()) std::cerr << status << "\n";
    failed = failed || !status.ok();
  }
  const absl::Status status = given_up.done.get_future().get();
  std::cout << "-- " << absl::StatusCodeToString(status.code()) << "\n";
  return failed ? 1 : 0;
}
