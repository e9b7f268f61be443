// A conversation of two turns, each printed as it comes.
//
// usage: chat; the environment's BOLE_SERVER names the server.
#include <iostream>
#include <memory>
#include <string>

#include "clients/sdk/call_error.h"
#include "clients/sdk/client.h"
#include "clients/sdk/examples/connect.h"
#include "clients/sdk/requests.h"

int main() {
  const std::unique_ptr<bole::Client> client = Connect();
  bole::v1::ChatInput chat;
  for (const char* question :
       {"Write a python function to add two numbers.", "And to multiply?"}) {
    std::cout << "> " << question << "\n";
    bole::AddMessage("user", question, chat);
    bole::v1::GenerateRequest request = bole::ChatRequest(chat);
    request.mutable_sampling_params()->set_temperature(0);
    request.mutable_sampling_params()->set_max_tokens(48);
    const std::unique_ptr<bole::GenerateStream> stream =
        client->Generate(request);
    std::string answer;
    for (const bole::v1::GenerateResponse& response : *stream) {
      const std::string& text = response.has_complete()
                                    ? response.complete().text()
                                    : response.chunk().text();
      std::cout << text << std::flush;
      answer += text;
    }
    if (!stream->status().ok()) {
      std::cerr << bole::ReadError(stream->status()).message << "\n";
      return 1;
    }
    std::cout << "\n";
    bole::AddMessage("assistant", answer, chat);
  }
}
