// What can go wrong, and how a program tells it apart.
//
// usage: errors; the environment's BOLE_SERVER names the server.
#include <chrono>
#include <iostream>
#include <memory>

#include "clients/sdk/call_error.h"
#include "clients/sdk/client.h"
#include "clients/sdk/examples/connect.h"
#include "clients/sdk/requests.h"
#include "clients/sdk/retry_policy.h"

namespace {

void Explain(const bole::CallError& error) {
  switch (error.kind()) {
    case bole::ErrorKind::kInvalid:
      for (const bole::FieldViolation& violation : error.violations) {
        std::cout << violation.field << " is wrong: ";
      }
      std::cout << error.message << "\n";
      break;
    case bole::ErrorKind::kNotFound:
      std::cout << "not found: " << error.message << "\n";
      break;
    case bole::ErrorKind::kDeadline:
      std::cout << "out of time\n";
      break;
    case bole::ErrorKind::kCancelled:
      std::cout << "cancelled\n";
      break;
    case bole::ErrorKind::kUnavailable:
      std::cout << "nothing answers\n";
      break;
    default:
      std::cout << "something else: " << error.message << "\n";
  }
}

// Reads an answer to its end, or, if it is to `cancel` it, to its first tokens.
bole::CallError ErrorOf(bole::Client& client,
                        const bole::v1::GenerateRequest& request,
                        const bole::CallOptions& options = {},
                        bool cancel = false) {
  const std::unique_ptr<bole::GenerateStream> stream =
      client.Generate(request, options);
  while (stream->Next() != nullptr) {
    if (cancel) stream->Cancel();
  }
  return bole::ReadError(stream->status());
}

}  // namespace

int main() {
  const std::unique_ptr<bole::Client> client = Connect();
  bole::v1::GenerateRequest wrong = bole::TextRequest("Hi");
  wrong.mutable_sampling_params()->set_top_p(2);
  Explain(ErrorOf(*client, wrong));

  bole::v1::GenerateRequest unknown = bole::TextRequest("Hi");
  unknown.set_model("no-such-model");
  Explain(ErrorOf(*client, unknown));

  bole::v1::GenerateRequest endless = bole::TextRequest("Hi");
  endless.mutable_sampling_params()->set_ignore_eos(true);
  Explain(
      ErrorOf(*client, endless, {.timeout = std::chrono::milliseconds(200)}));
  Explain(ErrorOf(*client, endless, {}, /*cancel=*/true));

  const auto nobody = bole::Client::Create(
      {.address = "127.0.0.1:1", .retry = {.max_attempts = 1}});
  Explain(ErrorOf(**nobody, bole::TextRequest("Hi")));
}
