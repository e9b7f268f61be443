#include "scheduler_service/door/http/http_generate_call.h"

#include <chrono>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/bole.pb.h"
#include "tests/common/net/http/raw_client.h"
#include "tests/scheduler_service/door/http/http_asking.h"
#include "tests/scheduler_service/tiny_system.h"

namespace bole {
namespace {

using nlohmann::json;
using testing::Event;
using testing::EventsOf;
using testing::OpenCall;
using testing::Post;
using testing::RawClient;
using testing::ReadReply;
using testing::Reply;
using testing::RequestText;
using testing::TinySystem;
using testing::WithHttp;

constexpr char kChat[] = "/v1/chat/completions";
constexpr char kCompletions[] = "/v1/completions";
constexpr char kResponses[] = "/v1/responses";

json ChatBody(int max_tokens, bool stream) {
  return {{"model", "tiny"},
          {"messages", {{{"role", "user"}, {"content", "hi"}}}},
          {"max_tokens", max_tokens},
          {"seed", 7},
          {"stream", stream}};
}

json CompletionsBody(int max_tokens, bool stream) {
  return {{"model", "tiny"},
          {"prompt", "qrs"},
          {"max_tokens", max_tokens},
          {"seed", 7},
          {"stream", stream}};
}

json ResponsesBody(int max_tokens, bool stream) {
  return {{"model", "tiny"},
          {"input", "hi"},
          {"max_output_tokens", max_tokens},
          {"seed", 7},
          {"stream", stream}};
}

// What gRPC answers to the same.
std::string TextOverGrpc(TinySystem& system, bool chat, int max_tokens) {
  v1::GenerateRequest request;
  if (chat) {
    v1::ChatMessage* message = request.mutable_chat()->add_messages();
    message->set_role("user");
    message->set_content("hi");
  } else {
    request.set_text("qrs");
  }
  request.mutable_sampling_params()->set_max_tokens(max_tokens);
  request.mutable_sampling_params()->set_seed(7);
  OpenCall call(system, request);
  EXPECT_TRUE(call.Finish().ok());
  EXPECT_FALSE(call.text.empty());
  return call.text;
}

TEST(HttpGenerateCallTest, WholeAnswersHaveTheTextOfGrpc) {
  TinySystem system(WithHttp());
  const std::string id = "X-Request-Id: mine\r\n";

  const Reply chat = Post(system, kChat, ChatBody(30, false), id);
  const Reply text = Post(system, kCompletions, CompletionsBody(30, false), id);
  const Reply response = Post(system, kResponses, ResponsesBody(30, false), id);

  ASSERT_EQ(chat.status, 200) << chat.body;
  ASSERT_EQ(text.status, 200) << text.body;
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_TRUE(chat.HasHeader("Content-Type: application/json")) << chat.head;
  EXPECT_TRUE(chat.HasHeader("X-Request-Id: mine")) << chat.head;
  EXPECT_EQ(chat.Json()["id"], "chatcmpl-mine");
  EXPECT_EQ(text.Json()["id"], "cmpl-mine");
  EXPECT_EQ(response.Json()["id"], "resp_mine");
  EXPECT_EQ(chat.Json()["choices"][0]["message"]["content"],
            TextOverGrpc(system, /*chat=*/true, 30));
  EXPECT_EQ(text.Json()["choices"][0]["text"],
            TextOverGrpc(system, /*chat=*/false, 30));
  EXPECT_EQ(response.Json()["output"][0]["content"][0]["text"],
            TextOverGrpc(system, /*chat=*/true, 30));
  EXPECT_EQ(text.Json()["usage"]["completion_tokens"], 30);
}

TEST(HttpGenerateCallTest, AChatStreamsChunksInOrder) {
  TinySystem system(WithHttp());
  json body = ChatBody(40, true);
  body["stream_options"] = {{"include_usage", true}};

  const Reply reply = Post(system, kChat, body);

  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_TRUE(reply.whole);
  EXPECT_TRUE(reply.HasHeader("Content-Type: text/event-stream")) << reply.head;
  const std::vector<Event> events = EventsOf(reply.body);
  ASSERT_GE(events.size(), 5u) << reply.body;
  EXPECT_EQ(events.back().data, "[DONE]");
  EXPECT_EQ(events[0].Json()["choices"][0]["delta"]["role"], "assistant");
  std::string text;
  for (size_t i = 0; i + 3 < events.size(); ++i) {
    const json choice = events[i].Json()["choices"][0];
    EXPECT_EQ(events[i].Json()["id"], events[0].Json()["id"]);
    EXPECT_TRUE(choice["finish_reason"].is_null());
    text += choice["delta"]["content"];
  }
  EXPECT_EQ(text, TextOverGrpc(system, /*chat=*/true, 40));
  const json last = events[events.size() - 3].Json();
  EXPECT_EQ(last["choices"][0]["finish_reason"], "length");
  const json usage = events[events.size() - 2].Json();
  EXPECT_TRUE(usage["choices"].empty());
  EXPECT_EQ(usage["usage"]["completion_tokens"], 40);
}

TEST(HttpGenerateCallTest, CompletionsAndResponsesStreamTheirEvents) {
  TinySystem system(WithHttp());

  const Reply text = Post(system, kCompletions, CompletionsBody(40, true));
  const Reply response = Post(system, kResponses, ResponsesBody(40, true));

  ASSERT_EQ(text.status, 200) << text.body;
  ASSERT_EQ(response.status, 200) << response.body;
  std::vector<Event> events = EventsOf(text.body);
  ASSERT_EQ(events.back().data, "[DONE]");
  events.pop_back();
  std::string said;
  for (const Event& event : events) said += event.Json()["choices"][0]["text"];
  EXPECT_EQ(said, TextOverGrpc(system, /*chat=*/false, 40));

  events = EventsOf(response.body);
  EXPECT_EQ(events.front().name, "response.created");
  EXPECT_EQ(events.back().name, "response.incomplete");  // By its length.
  said.clear();
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].Json()["type"], events[i].name);
    EXPECT_EQ(events[i].Json()["sequence_number"], i);
    if (events[i].name == "response.output_text.delta") {
      said += events[i].Json()["delta"];
    }
  }
  EXPECT_EQ(said, TextOverGrpc(system, /*chat=*/true, 40));
}

TEST(HttpGenerateCallTest, AllChoicesAreInOneAnswer) {
  TinySystem system(WithHttp());
  json body = CompletionsBody(20, false);
  body["n"] = 3;

  const Reply reply = Post(system, kCompletions, body);

  ASSERT_EQ(reply.status, 200) << reply.body;
  const json choices = reply.Json()["choices"];
  ASSERT_EQ(choices.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(choices[i]["index"], i);
    EXPECT_EQ(choices[i]["text"].get<std::string>().size(), 20u);
  }
  EXPECT_EQ(reply.Json()["usage"]["completion_tokens"], 60);
}

TEST(HttpGenerateCallTest, AConnectionServesOneCallAfterTheOther) {
  const TinySystem system(WithHttp());
  RawClient client(system.server->http_port());
  const auto request = [](const json& body) {
    const std::string text = body.dump();
    return std::string("POST ") + kCompletions +
           " HTTP/1.1\r\nHost: h\r\nContent-Length: " +
           std::to_string(text.size()) + "\r\n\r\n" + text;
  };

  for (int i = 0; i < 3; ++i) {
    client.Send(request(CompletionsBody(10, true)));
    const std::string stream = client.ReadUntil("0\r\n\r\n");
    EXPECT_NE(stream.find("data: [DONE]\n\n"), std::string::npos) << stream;
    client.Send(request(CompletionsBody(10, false)));
    const std::string whole = client.ReadAnswer();
    EXPECT_NE(whole.find("\"text_completion\""), std::string::npos) << whole;
  }
}

TEST(HttpGenerateCallTest, AClientThatLeavesGivesEverythingBack) {
  for (const bool stream : {false, true}) {
    TinySystem system(WithHttp());
    system.worker.Hold();
    RawClient client(system.server->http_port());
    client.Send(RequestText("POST", kChat, "", ChatBody(400, stream).dump()));
    ASSERT_TRUE(system.AwaitLoad(1, 0));

    client.Close();

    // Although the worker has not answered.
    EXPECT_TRUE(system.AwaitLoad(0, 0)) << stream;
  }
}

TEST(HttpGenerateCallTest, AClientThatLeavesInAStreamGivesEverythingBack) {
  TinySystem system(WithHttp());
  system.worker.Hold();
  RawClient client(system.server->http_port());
  client.Send(RequestText("POST", kChat, "", ChatBody(400, true).dump()));
  ASSERT_TRUE(system.AwaitLoad(1, 0));
  system.worker.AnswerOne();
  EXPECT_NE(client.ReadUntil("\"role\":\"assistant\"").find(" 200 OK"),
            std::string::npos);

  client.Close();

  EXPECT_TRUE(system.AwaitLoad(0, 0));
}

TEST(HttpGenerateCallTest, AFailureAfterTheFirstEventIsTheLastOne) {
  TinySystem system(WithHttp());
  system.worker.Hold();
  RawClient client(system.server->http_port());
  client.Send(RequestText("POST", kChat, "", ChatBody(400, true).dump()));
  ASSERT_TRUE(system.AwaitLoad(1, 0));
  system.worker.AnswerOne();
  ASSERT_NE(client.ReadUntil("\"role\":\"assistant\"").find(" 200 OK"),
            std::string::npos);

  system.server->Stop();

  const std::string rest = client.ReadAll();
  EXPECT_NE(rest.find("data: {\"error\":{"), std::string::npos) << rest;
  EXPECT_EQ(rest.find("[DONE]"), std::string::npos) << rest;
}

// More than the system's buffers hold for a client that reads nothing.
json LargeBody() {
  json body = ChatBody(800, true);
  body["n"] = 4;
  body["logprobs"] = true;
  body["top_logprobs"] = 20;
  return body;
}

constexpr int kSmallBuffer = 4096;

TEST(HttpGenerateCallTest, AStalledReaderDelaysNobodyAndMissesNothing) {
  TinySystem system(WithHttp());
  const std::string request =
      RequestText("POST", kChat, "", LargeBody().dump());
  RawClient slow(system.server->http_port(), kSmallBuffer);
  slow.Send(request);
  ASSERT_EQ(slow.ReadUntil("\r\n\r\n").substr(0, 15), "HTTP/1.1 200 OK");

  const Reply other = Post(system, kChat, ChatBody(30, true));
  // All of it was made, though it waits for its reader.
  ASSERT_TRUE(system.AwaitLoad(0, 0));
  const std::string rest = slow.ReadAll();

  EXPECT_EQ(other.status, 200);
  EXPECT_NE(rest.find("data: [DONE]"), std::string::npos);
  EXPECT_GT(rest.size(), 1u << 20) << "no more than the buffers hold";
}

TEST(HttpGenerateCallTest, AReaderThatStopsIsEndedAndFreesItsPlace) {
  SchedulerServerOptions options = WithHttp();
  options.door.max_open_requests = 1;
  options.door.stalled_reader = std::chrono::milliseconds(300);
  TinySystem system(options);
  RawClient stalled(system.server->http_port(), kSmallBuffer);
  stalled.Send(RequestText("POST", kChat, "", LargeBody().dump()));
  ASSERT_EQ(stalled.ReadUntil("\r\n\r\n").substr(0, 15), "HTTP/1.1 200 OK");

  // Nobody reads or closes the first connection.
  EXPECT_TRUE(testing::Eventually(
      [&] { return Post(system, kChat, ChatBody(3, false)).status == 200; }));

  EXPECT_EQ(stalled.ReadAll().find("[DONE]"), std::string::npos);
}

TEST(HttpGenerateCallTest, WhatIsWrongIsNamed) {
  const TinySystem system(WithHttp());
  json unknown = ChatBody(3, true);
  unknown["no_such_field"] = 1;
  json hot = CompletionsBody(3, true);
  hot["temperature"] = -1;
  json other = ChatBody(3, false);
  other["model"] = "other";

  const Reply no_json = Post(system, kChat, "text");
  const Reply field = Post(system, kChat, unknown);
  const Reply value = Post(system, kCompletions, hot);
  const Reply model = Post(system, kChat, other);

  EXPECT_EQ(no_json.status, 400) << no_json.body;
  EXPECT_EQ(field.status, 400) << field.body;
  EXPECT_EQ(field.Json()["error"]["param"], "no_such_field");
  EXPECT_EQ(field.Json()["error"]["code"], "unsupported");
  EXPECT_EQ(value.status, 400) << value.body;
  EXPECT_EQ(value.Json()["error"]["param"], "temperature");
  EXPECT_EQ(model.status, 404) << model.body;
  EXPECT_EQ(model.Json()["error"]["code"], "model_not_found");
}

TEST(HttpGenerateCallTest, BoundsThatAreReachedSayWhenToComeAgain) {
  SchedulerServerOptions options = WithHttp();
  options.door.max_open_requests = 1;
  options.max_message_bytes = 4096;
  TinySystem system(options);
  system.worker.Hold();
  RawClient first(system.server->http_port());
  first.Send(RequestText("POST", kChat, "", ChatBody(9, false).dump()));
  ASSERT_TRUE(system.AwaitLoad(1, 0));
  json long_body = ChatBody(3, false);
  long_body["messages"][0]["content"] = std::string(5000, 'x');

  const Reply full = Post(system, kChat, ChatBody(3, true));
  const Reply too_long = Post(system, kChat, long_body);
  system.worker.Release();

  EXPECT_EQ(full.status, 429) << full.body;
  EXPECT_EQ(full.Json()["error"]["type"], "rate_limit_error");
  EXPECT_NE(full.head.find("\r\nRetry-After: "), std::string::npos);
  EXPECT_EQ(too_long.status, 413) << too_long.body;
  EXPECT_EQ(ReadReply(first).status, 200);
}

TEST(HttpGenerateCallTest, WithoutAWorkerThereIsNoAnswer) {
  const TinySystem system(WithHttp(), /*with_worker=*/false);

  const Reply reply = Post(system, kChat, ChatBody(3, true));

  EXPECT_EQ(reply.status, 503) << reply.body;
  EXPECT_EQ(reply.Json()["error"]["code"], "no_worker");
}

TEST(HttpGenerateCallTest, LongBodiesAreReadAsWell) {
  const TinySystem system(WithHttp());
  json body = CompletionsBody(5, false);
  body["user"] = std::string(20000, 'u');  // Unused, so the prompt is short.

  const Reply reply = Post(system, kCompletions, body);

  EXPECT_EQ(reply.status, 200) << reply.body;
}

}  // namespace
}  // namespace bole
