// Prints answers of each kind, one JSON object a line: {"type", "value"}, where
// `type` is what the npm package `openai` calls it.

#include <cstdio>
#include <string>

#include "common/check.h"
#include "google/protobuf/text_format.h"
#include "proto/bole.pb.h"
#include "scheduler_service/door/openai/openai_answer.h"
#include "scheduler_service/door/openai/openai_models.h"
#include "scheduler_service/door/openai/openai_request.h"

namespace bole {
namespace {

constexpr char kLogprobs[] =
    R"(output_logprobs { text: "a" bytes: "a" logprob: -1
                         top { text: "b" bytes: "b" logprob: -2 } })";

v1::GenerateResponse Response(const std::string& text) {
  v1::GenerateResponse response;
  BOLE_CHECK(google::protobuf::TextFormat::ParseFromString(text, &response));
  response.set_model("m");
  return response;
}

void Print(const char* type, const std::string& json) {
  std::printf("{\"type\":\"%s\",\"value\":%s}\n", type, json.c_str());
}

void PrintSamples(OpenAiApi api, const std::string& members, const char* whole,
                  const char* event, const std::string& news) {
  const auto request = ReadOpenAiRequest(
      api, "{" + members +
               R"(,"stream":true,"stream_options":{"include_usage":true}})");
  BOLE_CHECK(request.ok());
  const std::string end =
      " finish_reason: FINISH_REASON_STOP usage { prompt_tokens: 2 "
      "completion_tokens: 1 cached_tokens: 1 }";
  OpenAiAnswer answer(*request, "id", 1);
  answer.Add(Response("complete { " + news + end + " }"));
  Print(whole, answer.Whole());

  OpenAiAnswer stream(*request, "id", 1);
  std::string out;
  stream.AppendEvents(Response("chunk { " + news + " }"), out);
  stream.AppendEvents(Response("complete { " + end + " }"), out);
  stream.AppendEnd(out);
  for (size_t at = 0; (at = out.find("data: {", at)) != out.npos;) {
    at += 6;
    Print(event, out.substr(at, out.find("\n\n", at) - at));
  }
}

}  // namespace
}  // namespace bole

int main() {
  using bole::OpenAiApi;
  const std::string text = std::string(R"(text: "a" )") + bole::kLogprobs;
  const std::string calls =
      R"( tool_calls { id: "c" name: "f" arguments_json: "{}" })";
  bole::PrintSamples(
      OpenAiApi::kChat,
      R"("messages":[{"role":"user","content":"q"}],"logprobs":true)",
      "ChatCompletion", "ChatCompletionChunk", text + calls);
  bole::PrintSamples(OpenAiApi::kCompletions, R"("prompt":"q","logprobs":1)",
                     "Completion", "Completion", text);
  for (const std::string& reasoning :
       {std::string(), std::string(R"(reasoning_content: "r" )")}) {
    bole::PrintSamples(OpenAiApi::kResponses, R"("input":"q","top_logprobs":1)",
                       "Responses.Response", "Responses.ResponseStreamEvent",
                       reasoning + text + calls);
  }
  bole::v1::GetModelInfoResponse model;
  model.set_model("m");
  model.set_max_context(64);
  bole::Print("Model", bole::ModelBody(model, 1));
  return 0;
}
