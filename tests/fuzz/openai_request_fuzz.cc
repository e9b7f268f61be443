// Bodies of OpenAI's API, as a client may send them: the first byte chooses the
// API. What is read is a message that can be sent; an error names itself.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/check.h"
#include "nlohmann/json.hpp"
#include "proto/bole.pb.h"
#include "scheduler_service/door/openai/openai_answer.h"
#include "scheduler_service/door/openai/openai_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr bole::OpenAiApi kApis[] = {bole::OpenAiApi::kChat,
                                       bole::OpenAiApi::kCompletions,
                                       bole::OpenAiApi::kResponses};
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1,
                              size - 1);
  const auto request = bole::ReadOpenAiRequest(kApis[data[0] % 3], body);
  if (!request.ok()) {
    BOLE_CHECK(absl::IsInvalidArgument(request.status()) ||
               absl::IsUnimplemented(request.status()));
    BOLE_CHECK(!request.status().message().empty());
    return 0;
  }
  // Protobuf refuses to write text that is not UTF-8.
  std::string bytes;
  BOLE_CHECK(request->message.SerializeToString(&bytes));
  BOLE_CHECK(request->stream || !request->include_usage);

  bole::v1::GenerateResponse response;
  response.mutable_complete()->set_text("text");
  bole::OpenAiAnswer answer(*request, "id", 1);
  answer.Add(response);
  BOLE_CHECK(nlohmann::json::accept(answer.Whole()));
  return 0;
}
