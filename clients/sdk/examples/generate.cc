// Writes on after a text, as it comes, and says what it took.
//
// usage: generate [TEXT]; the environment's BOLE_SERVER names the server.
#include <iostream>
#include <memory>

#include "clients/sdk/call_error.h"
#include "clients/sdk/client.h"
#include "clients/sdk/examples/connect.h"
#include "clients/sdk/requests.h"

int main(int argc, char** argv) {
  const std::unique_ptr<bole::Client> client = Connect();
  bole::v1::GenerateRequest request =
      bole::TextRequest(argc > 1 ? argv[1] : "def fibonacci(n):\n");
  request.mutable_sampling_params()->set_temperature(0);
  request.mutable_sampling_params()->set_max_tokens(32);
  const std::unique_ptr<bole::GenerateStream> stream =
      client->Generate(request);
  bole::v1::GenerateComplete complete;
  for (const bole::v1::GenerateResponse& response : *stream) {
    std::cout << response.chunk().text() << std::flush;
    if (response.has_complete()) complete = response.complete();
  }
  if (!stream->status().ok()) {
    std::cerr << bole::ReadError(stream->status()).message << "\n";
    return 1;
  }
  std::cout << complete.text() << "\n-- "
            << complete.usage().completion_tokens() << " tokens, "
            << complete.speculation().accepted_drafts() << " of them drafted\n";
}
