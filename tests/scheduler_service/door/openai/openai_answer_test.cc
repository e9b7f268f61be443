#include "scheduler_service/door/openai/openai_answer.h"

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "scheduler_service/door/openai/openai_error.h"
#include "scheduler_service/jobs/failure.h"
#include "scheduler_service/jobs/refusal.h"

namespace bole {
namespace {

using Json = nlohmann::json;

v1::GenerateResponse Response(const std::string& text) {
  v1::GenerateResponse response;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &response))
      << text;
  response.set_model("m");
  return response;
}

OpenAiRequest Request(OpenAiApi api, const std::string& body) {
  auto request = ReadOpenAiRequest(api, body);
  EXPECT_TRUE(request.ok()) << request.status();
  return *request;
}

std::string ChatBody(const std::string& more) {
  return R"({"messages":[{"role":"user","content":"hi"}])" + more + "}";
}

// The data of the events, "[DONE]" as a string.
std::vector<Json> DataOf(const std::string& events) {
  std::vector<Json> all;
  size_t at = 0;
  while ((at = events.find("data: ", at)) != events.npos) {
    at += 6;
    const size_t end = events.find("\n\n", at);
    EXPECT_NE(end, events.npos);
    const std::string data = events.substr(at, end - at);
    all.push_back(data == "[DONE]" ? Json(data) : Json::parse(data));
    at = end;
  }
  return all;
}

std::vector<Json> Stream(const OpenAiRequest& request,
                         const std::vector<std::string>& responses) {
  OpenAiAnswer answer(request, "id", 7);
  std::string events;
  for (const std::string& text : responses) {
    answer.AppendEvents(Response(text), events);
  }
  answer.AppendEnd(events);
  return DataOf(events);
}

Json Whole(const OpenAiRequest& request,
           const std::vector<std::string>& responses) {
  OpenAiAnswer answer(request, "id", 7);
  for (const std::string& text : responses) answer.Add(Response(text));
  return Json::parse(answer.Whole());
}

TEST(OpenAiAnswerTest, StreamsAChat) {
  const auto events = Stream(
      Request(OpenAiApi::kChat,
              ChatBody(
                  R"(,"stream":true,"stream_options":{"include_usage":true})")),
      {R"(chunk { reasoning_content: "r" })", R"(chunk { text: "a" })",
       R"(chunk { token_ids: 4 })",
       R"(chunk { tool_calls { id: "c" name: "f" arguments_json: "{}" } })",
       R"(complete { finish_reason: FINISH_REASON_STOP matched_token_id: 9
          usage { prompt_tokens: 5 completion_tokens: 3 cached_tokens: 2 } })"});

  ASSERT_EQ(events.size(), 7);
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    EXPECT_EQ(events[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(events[i]["id"], "id");
    EXPECT_EQ(events[i]["created"], 7);
    EXPECT_EQ(events[i]["model"], "m");
  }
  const auto delta = [&](size_t i) { return events[i]["choices"][0]["delta"]; };
  EXPECT_EQ(delta(0), Json::parse(R"({"role":"assistant","content":""})"));
  EXPECT_EQ(delta(1), Json::parse(R"({"reasoning_content":"r"})"));
  EXPECT_EQ(delta(2), Json::parse(R"({"content":"a"})"));
  EXPECT_EQ(delta(3), Json::parse(R"({"tool_calls":[{"index":0,"id":"c",
      "type":"function","function":{"name":"f","arguments":"{}"}}]})"));
  EXPECT_EQ(events[4]["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_TRUE(events[4]["usage"].is_null());
  EXPECT_EQ(events[5]["choices"], Json::array());
  EXPECT_EQ(events[5]["usage"], Json::parse(R"({"prompt_tokens":5,
      "completion_tokens":3,"total_tokens":8,
      "prompt_tokens_details":{"cached_tokens":2}})"));
  EXPECT_EQ(events[6], "[DONE]");
}

TEST(OpenAiAnswerTest, PutsAChatsChoicesInTheirOrder) {
  const Json body = Whole(
      Request(OpenAiApi::kChat, ChatBody(R"(,"n":2,"logprobs":true)")),
      {R"(complete { index: 1 text: "b" finish_reason: FINISH_REASON_LENGTH
          usage { prompt_tokens: 5 completion_tokens: 3 cached_tokens: 4 } })",
       R"(complete { text: "a" finish_reason: FINISH_REASON_STOP
          matched_stop_str: "x"
          output_logprobs { text: "a" bytes: "\303" logprob: -inf
                            top { text: "z" bytes: "z" logprob: -0.5 } }
          usage { prompt_tokens: 5 completion_tokens: 1 } })"});

  EXPECT_EQ(body["object"], "chat.completion");
  ASSERT_EQ(body["choices"].size(), 2);
  EXPECT_EQ(body["choices"][0]["message"]["content"], "a");
  EXPECT_EQ(body["choices"][0]["stop_reason"], "x");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["choices"][0]["logprobs"]["content"],
            Json::parse(R"([{"token":"a","logprob":-9999.0,"bytes":[195],
        "top_logprobs":[{"token":"z","logprob":-0.5,"bytes":[122]}]}])"));
  EXPECT_EQ(body["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 5);
  EXPECT_EQ(body["usage"]["completion_tokens"], 4);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

TEST(OpenAiAnswerTest, EveryStreamedChoiceBeginsWithTheEcho) {
  const auto events = Stream(
      Request(
          OpenAiApi::kCompletions,
          R"({"prompt":"pé","n":2,"stream":true,"echo":true,"logprobs":0})"),
      {R"(chunk { index: 1 text: "b" output_logprobs { text: "b" bytes: "b" } })",
       R"(chunk { text: "a" output_logprobs { text: "a" bytes: "a" logprob: -1 }
          prompt { text: "p\303\251"
                   logprobs { text: "\303\251" bytes: "\303\251" logprob: -2 } } })"});

  ASSERT_EQ(events.size(), 3);
  EXPECT_EQ(events[0]["choices"][0]["text"], "p\303\251a");
  EXPECT_EQ(events[1]["choices"][0]["text"], "p\303\251b");
  EXPECT_EQ(events[0]["choices"][0]["logprobs"],
            Json::parse(R"({"tokens":["p","é","a"],
      "token_logprobs":[null,-2.0,-1.0],
      "top_logprobs":[null,{"é":-2.0},{"a":-1.0}],"text_offset":[0,1,2]})"));
  EXPECT_EQ(events[2], "[DONE]");
}

TEST(OpenAiAnswerTest, EveryChunkHasItsTokenIdsIfTheyAreAskedFor) {
  const std::vector<std::string> responses = {
      R"(chunk { text: "a" token_ids: 4 token_ids: 5 })",
      R"(chunk { token_ids: 6 })", R"(chunk { text: "b" token_ids: 7 })",
      R"(complete { finish_reason: FINISH_REASON_LENGTH })"};
  const std::string options = R"("stream":true,"return_token_ids":true})";
  const std::vector<Json> ids = {{4, 5}, {6}, {7}, Json::array()};

  const auto completions =
      Stream(Request(OpenAiApi::kCompletions, R"({"prompt":"p",)" + options),
             responses);
  ASSERT_EQ(completions.size(), ids.size() + 1);
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(completions[i]["choices"][0]["token_ids"], ids[i]);
  }
  EXPECT_EQ(completions[1]["choices"][0]["text"], "");

  const auto chat = Stream(
      Request(OpenAiApi::kChat,
              R"({"messages":[{"role":"user","content":"hi"}],)" + options),
      responses);
  std::vector<Json> told;
  for (const Json& event : chat) {
    if (!event.is_object()) continue;
    const Json& choice = event["choices"][0];
    if (choice.contains("token_ids")) told.push_back(choice["token_ids"]);
  }
  EXPECT_EQ(told, std::vector<Json>(ids.begin(), ids.begin() + 3));

  for (const OpenAiApi api : {OpenAiApi::kCompletions, OpenAiApi::kChat}) {
    const std::string body = api == OpenAiApi::kChat
                                 ? ChatBody(R"(,"return_token_ids":true)")
                                 : R"({"prompt":"p","return_token_ids":true})";
    const Json whole =
        Whole(Request(api, body), {R"(complete { text: "x" output_ids: 9 })"});
    EXPECT_EQ(whole["choices"][0]["token_ids"], Json({9}));
  }
}

TEST(OpenAiAnswerTest, NobodyElseIsToldTokenIds) {
  const auto events = Stream(
      Request(OpenAiApi::kCompletions, R"({"prompt":"p","stream":true})"),
      {R"(chunk { text: "a" token_ids: 4 })", R"(chunk { token_ids: 6 })"});

  ASSERT_EQ(events.size(), 2);
  EXPECT_FALSE(events[0]["choices"][0].contains("token_ids"));
}

TEST(OpenAiAnswerTest, StreamsAResponse) {
  const auto request =
      Request(OpenAiApi::kResponses, R"({"input":"q","stream":true})");
  const auto events = Stream(
      request,
      {R"(chunk { reasoning_content: "r" })", R"(chunk { text: "a" })",
       R"(chunk { tool_calls { id: "c" name: "f" arguments_json: "{}" } })",
       R"(complete { finish_reason: FINISH_REASON_STOP
          usage { prompt_tokens: 5 completion_tokens: 3 } })"});

  std::vector<std::string> types;
  for (size_t i = 0; i < events.size(); ++i) {
    types.push_back(events[i]["type"]);
    EXPECT_EQ(events[i]["sequence_number"], i);
  }
  EXPECT_EQ(types,
            (std::vector<std::string>{
                "response.created", "response.in_progress",
                "response.output_item.added", "response.content_part.added",
                "response.reasoning_text.delta", "response.reasoning_text.done",
                "response.content_part.done", "response.output_item.done",
                "response.output_item.added", "response.content_part.added",
                "response.output_text.delta", "response.output_text.done",
                "response.content_part.done", "response.output_item.done",
                "response.output_item.added",
                "response.function_call_arguments.delta",
                "response.function_call_arguments.done",
                "response.output_item.done", "response.completed"}));
  EXPECT_FALSE(events.front()["response"].contains("usage"));
  const Json& response = events.back()["response"];
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["usage"]["total_tokens"], 8);
  ASSERT_EQ(response["output"].size(), 3);
  EXPECT_EQ(response["output"][1]["content"][0]["text"], "a");
  EXPECT_EQ(response["output"][2]["call_id"], "c");
}

TEST(OpenAiAnswerTest, AResponseThatIsCutIsIncomplete) {
  const Json body = Whole(
      Request(OpenAiApi::kResponses, R"({"input":"q","temperature":0.5})"),
      {R"(complete { text: "a" finish_reason: FINISH_REASON_LENGTH })"});

  EXPECT_EQ(body["status"], "incomplete");
  EXPECT_EQ(body["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(body["temperature"], 0.5);
  EXPECT_EQ(body["output"][0]["status"], "incomplete");
}

TEST(OpenAiAnswerTest, AnErrorEndsAStreamWithoutDone) {
  OpenAiAnswer answer(Request(OpenAiApi::kChat, ChatBody(R"(,"stream":true)")),
                      "id", 7);
  std::string events;
  answer.AppendError(ToOpenAiError(Failed(FailureReason::kWorkersLost, "gone")),
                     events);

  EXPECT_EQ(events,
            "data: {\"error\":{\"message\":\"gone\",\"type\":\"server_error\","
            "\"param\":null,\"code\":\"workers_lost\"}}\n\n");
}

TEST(OpenAiErrorTest, NamesFieldsAsTheApiDoes) {
  const OpenAiError error = ToOpenAiError(
      Refusal{.reason = RefusalReason::kInvalid,
              .message = "sampling_params.max_tokens is 0; allowed is more",
              .field = "sampling_params.max_tokens"},
      OpenAiApi::kResponses);

  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, "max_output_tokens");
  EXPECT_EQ(error.message, "max_output_tokens is 0; allowed is more");
}

TEST(OpenAiErrorTest, HasAStatusForEachReason) {
  for (const RefusalReason reason : kRefusalReasons) {
    const OpenAiError error =
        ToOpenAiError(Refusal{.reason = reason,
                              .message = "m",
                              .retry_after = std::chrono::milliseconds(5)});
    EXPECT_EQ(error.status == 429, IsFull(reason)) << NameOf(reason);
    EXPECT_NE(error.status, 500) << NameOf(reason);
    EXPECT_EQ(error.retry_after, std::chrono::milliseconds(5));
  }
  for (const FailureReason reason : kFailureReasons) {
    EXPECT_EQ(ToOpenAiError(Failed(reason, "m")).code, NameOf(reason));
  }
  EXPECT_EQ(ToOpenAiError(absl::InternalError("m")).status, 500);
}

}  // namespace
}  // namespace bole
