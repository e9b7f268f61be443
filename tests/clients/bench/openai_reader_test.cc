#include "clients/bench/openai_reader.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "clients/bench/openai_failure.h"

namespace bole::bench {
namespace {

// What an answer was read as.
struct Reading {
  std::string text;
  std::vector<uint32_t> ids;
  std::vector<int> chunk_sizes;  // In tokens.
  std::vector<v1::GenerateComplete> complete;
  CallEnd end;

  bool operator==(const Reading& other) const {
    return text == other.text && ids == other.ids &&
           chunk_sizes == other.chunk_sizes &&
           complete.size() == other.complete.size() &&
           end.status == other.end.status && end.reason == other.end.reason;
  }
};

Reading Read(std::initializer_list<std::string_view> parts) {
  Reading reading;
  OpenAiReader reader;
  const auto take = [&](const v1::GenerateResponse& response) {
    if (response.has_complete()) {
      reading.complete.push_back(response.complete());
      return;
    }
    const v1::GenerateChunk& chunk = response.chunk();
    reading.text += chunk.text();
    reading.ids.insert(reading.ids.end(), chunk.token_ids().begin(),
                       chunk.token_ids().end());
    reading.chunk_sizes.push_back(chunk.token_ids_size());
  };
  for (const std::string_view part : parts) {
    if (auto failed = reader.Feed(part, take)) {
      reading.end = *failed;
      return reading;
    }
  }
  reading.end = reader.End();
  return reading;
}

constexpr std::string_view kAnswer =
    ": a comment\n\n"
    "data: {\"choices\":[{\"index\":0,\"text\":\"H\xc3\xa9\","
    "\"token_ids\":[7,8],\"finish_reason\":null}]}\n\n"
    "event: more\r\n"
    "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"token_ids\":[9],\r\n"
    "data: \"finish_reason\":null}]}\r\n\r\n"
    "data:{\"choices\":[{\"index\":0,\"text\":\"!\",\"token_ids\":[10],"
    "\"finish_reason\":\"length\"}]}\r\r"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,"
    "\"completion_tokens\":4,\"total_tokens\":9,"
    "\"prompt_tokens_details\":{\"cached_tokens\":2}}}\n\n"
    "data: [DONE]\n\n";

TEST(OpenAiReaderTest, ACompletionIsReadWhereverItsBytesAreCut) {
  const Reading whole = Read({kAnswer});

  EXPECT_TRUE(whole.end.status.ok()) << whole.end.status;
  EXPECT_EQ(whole.text, "H\xc3\xa9!");
  EXPECT_EQ(whole.ids, (std::vector<uint32_t>{7, 8, 9, 10}));
  EXPECT_EQ(whole.chunk_sizes, (std::vector<int>{2, 1, 1}));
  ASSERT_EQ(whole.complete.size(), 1u);
  EXPECT_EQ(whole.complete[0].finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(whole.complete[0].usage().prompt_tokens(), 5u);
  EXPECT_EQ(whole.complete[0].usage().completion_tokens(), 4u);
  EXPECT_EQ(whole.complete[0].usage().cached_tokens(), 2u);
  for (size_t cut = 0; cut <= kAnswer.size(); ++cut) {
    EXPECT_EQ(Read({kAnswer.substr(0, cut), kAnswer.substr(cut)}), whole)
        << "cut after " << cut << " bytes";
  }
}

TEST(OpenAiReaderTest, ACompletionIsReadByteByByte) {
  OpenAiReader reader;
  std::vector<int> chunk_sizes;
  for (const char& byte : kAnswer) {
    const auto failed = reader.Feed(
        std::string_view(&byte, 1), [&](const v1::GenerateResponse& response) {
          chunk_sizes.push_back(response.chunk().token_ids_size());
        });
    ASSERT_FALSE(failed.has_value()) << failed->status;
  }
  EXPECT_EQ(chunk_sizes, (std::vector<int>{2, 1, 1, 0}));
  EXPECT_TRUE(reader.End().status.ok());
}

TEST(OpenAiReaderTest, AChatIsReadFromItsDeltas) {
  const Reading chat =
      Read({R"(data: {"choices":[{"delta":{"role":"assistant","content":""}}]})"
            "\n\n",
            R"(data: {"choices":[{"delta":{"reasoning_content":"r"},)"
            R"("token_ids":[1]}]})"
            "\n\n",
            R"(data: {"choices":[{"delta":{"content":"a"},"token_ids":[2]}]})"
            "\n\n",
            R"(data: {"choices":[{"delta":{},"finish_reason":"stop"}]})"
            "\n\ndata: [DONE]\n\n"});

  EXPECT_TRUE(chat.end.status.ok()) << chat.end.status;
  EXPECT_EQ(chat.text, "a");
  EXPECT_EQ(chat.ids, (std::vector<uint32_t>{1, 2}));
  ASSERT_EQ(chat.complete.size(), 1u);
  EXPECT_EQ(chat.complete[0].finish_reason(), v1::FINISH_REASON_STOP);
}

TEST(OpenAiReaderTest, AnAnswerWithoutDoneHasFailed) {
  for (const std::string_view end :
       {"", "data: [DONE]", "data: [DONE]\n", ": [DONE]\n\n"}) {
    const Reading cut =
        Read({R"(data: {"choices":[{"text":"a","token_ids":[1]}]})"
              "\n\n",
              end});

    EXPECT_TRUE(absl::IsInternal(cut.end.status)) << cut.end.status;
    EXPECT_EQ(cut.ids.size(), 1u);
    EXPECT_TRUE(cut.complete.empty());
  }
}

TEST(OpenAiReaderTest, WhatFollowsDoneIsNotRead) {
  const Reading reading = Read({"data: [DONE]\n\ndata: nonsense\n\n"});

  EXPECT_TRUE(reading.end.status.ok()) << reading.end.status;
  EXPECT_EQ(reading.complete.size(), 1u);
}

TEST(OpenAiReaderTest, AnErrorEventEndsTheCallWithItsCode) {
  const struct {
    const char* error;
    absl::StatusCode code;
    const char* reason;
  } cases[] = {
      {R"({"message":"m","type":"server_error","code":"workers_lost"})",
       absl::StatusCode::kUnavailable, "WORKERS_LOST"},
      {R"({"message":"m","type":"server_error","code":"deadline"})",
       absl::StatusCode::kDeadlineExceeded, "DEADLINE"},
      {R"({"message":"m","type":"rate_limit_error","code":"slow_reader"})",
       absl::StatusCode::kResourceExhausted, "SLOW_READER"},
      {R"({"message":"m","type":"rate_limit_error","code":"other"})",
       absl::StatusCode::kResourceExhausted, "OTHER"},
      {R"({"message":"m","type":"server_error","code":null})",
       absl::StatusCode::kInternal, ""},
      {R"({"message":"m","code":400})", absl::StatusCode::kInvalidArgument, ""},
      {R"("m")", absl::StatusCode::kInternal, ""},
  };
  for (const auto& [error, code, reason] : cases) {
    const Reading reading =
        Read({R"(data: {"choices":[{"text":"a","token_ids":[1]}]})"
              "\n\n",
              std::string("data: {\"error\":") + error + "}\n\n",
              "data: [DONE]\n\n"});

    EXPECT_EQ(reading.end.status.code(), code) << error;
    EXPECT_EQ(reading.end.status.message(), "m") << error;
    EXPECT_EQ(reading.end.reason, reason) << error;
    EXPECT_TRUE(reading.complete.empty());
    EXPECT_EQ(reading.ids.size(), 1u);
  }
}

TEST(OpenAiReaderTest, EventsThatMakeNoSenseAreErrorsThatShowThem) {
  const struct {
    const char* data;
    const char* shown;
  } cases[] = {
      {"{\"choices\":[", "no JSON"},
      {"{\"choices\":[{\"text\":\"\xff\"}]}", "no JSON"},
      {"[1]", "[1]"},
      {"{\"id\":\"x\"}", "choices"},
      {"{\"choices\":{}}", "choices"},
      {"{\"choices\":[{},{}]}", "choices"},
      {"{\"choices\":[7]}", "choice"},
      {"{\"choices\":[{\"text\":1}]}", "text"},
      {"{\"choices\":[{\"delta\":[]}]}", "delta"},
      {"{\"choices\":[{\"token_ids\":[-1]}]}", "token_ids"},
      {"{\"choices\":[{\"token_ids\":[4294967296]}]}", "token_ids"},
      {"{\"choices\":[],\"usage\":{\"prompt_tokens\":-2}}", "prompt_tokens"},
  };
  for (const auto& [data, shown] : cases) {
    const Reading reading =
        Read({std::string("data: ") + data + "\n\n", "data: [DONE]\n\n"});

    EXPECT_TRUE(absl::IsInternal(reading.end.status)) << data;
    EXPECT_TRUE(absl::StrContains(reading.end.status.message(), shown))
        << reading.end.status;
    EXPECT_TRUE(reading.complete.empty());
  }
}

TEST(OpenAiReaderTest, AServerThatTellsNoTokenIdsCannotBeMeasured) {
  const Reading reading = Read({R"(data: {"choices":[{"text":"a"}]})"
                                "\n\n"});

  EXPECT_TRUE(absl::IsFailedPrecondition(reading.end.status));
  EXPECT_TRUE(absl::StrContains(reading.end.status.message(), "token_ids"));
}

TEST(OpenAiReaderTest, AnEventHasABound) {
  OpenAiReader reader;
  const std::string piece(1 << 20, 'x');
  std::optional<CallEnd> failed;
  size_t bytes = 0;
  while (!failed && bytes <= 2 * SseReader::kMaxEventBytes) {
    failed = reader.Feed(piece, [](const v1::GenerateResponse&) {});
    bytes += piece.size();
  }
  ASSERT_TRUE(failed.has_value());
  EXPECT_TRUE(absl::IsResourceExhausted(failed->status)) << failed->status;
}

TEST(OpenAiFailureTest, AStatusBecomesTheCodeThatGrpcHas) {
  const struct {
    int http_status;
    const char* body;
    absl::StatusCode code;
    const char* reason;
  } cases[] = {
      {400, R"({"error":{"message":"m","code":"invalid_value"}})",
       absl::StatusCode::kInvalidArgument, "INVALID_VALUE"},
      {400, R"({"error":{"message":"m","code":"unsupported"}})",
       absl::StatusCode::kUnimplemented, "UNSUPPORTED"},
      {401, R"({"error":{"message":"m","code":null}})",
       absl::StatusCode::kUnauthenticated, ""},
      {404, R"({"error":{"message":"m","code":"model_not_found"}})",
       absl::StatusCode::kNotFound, "MODEL_NOT_FOUND"},
      {429, R"({"error":{"message":"m","code":"queue_requests"}})",
       absl::StatusCode::kResourceExhausted, "QUEUE_REQUESTS"},
      {503, R"({"error":{"message":"m","code":"draining"}})",
       absl::StatusCode::kUnavailable, "DRAINING"},
  };
  for (const auto& [http_status, body, code, reason] : cases) {
    const CallEnd end = FailureOfAnswer(http_status, body);

    EXPECT_EQ(end.status, absl::Status(code, "m")) << body;
    EXPECT_EQ(end.reason, reason) << body;
  }
  const CallEnd proxy = FailureOfAnswer(502, "<html>no</html>");
  EXPECT_EQ(proxy.status,
            absl::UnavailableError("HTTP status 502: <html>no</html>"));
  EXPECT_TRUE(absl::IsUnknown(FailureOfAnswer(418, "{}").status));
}

}  // namespace
}  // namespace bole::bench
