// Reasoning and tool calls in the messages of a choice.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/chat/output/output_format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "scheduler_service/door/messages/response_codec.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"

namespace bole {
namespace {

Request OneRequest(bool logprobs) {
  Request request;
  request.id = "r";
  request.prompt = {1, 2, 3};
  request.sampling.seed = 99;
  request.sampling.logprobs = logprobs;
  return request;
}

TokenDelta Delta(const std::vector<int32_t>& tokens, std::string text) {
  TokenDelta delta;
  for (const int32_t token : tokens) {
    delta.tokens.push_back({.token = token,
                            .logprob = -0.5f,
                            .top = {{.token = 7, .logprob = -0.25f},
                                    {.token = token, .logprob = -0.5f}}});
  }
  delta.text = std::move(text);
  return delta;
}

// One that parses: the prompt has opened the reasoning, f may be called.
ResponseEncoder ParsingEncoder(const Request& request, bool chunks) {
  static const auto& model = *new std::string("tiny");
  static const auto& tokenizer = *testing::MakeTinyTokenizer().release();
  return ResponseEncoder(
      request, {.model = model, .tokenizer = tokenizer, .chunks = chunks},
      {.output = std::make_shared<const OutputFormat>(OutputFormat{
           .start = OutputFormat::Start::kReasoning,
           .calls = CallForm::kXml,
           .tools =
               ToolSet(nlohmann::ordered_json::parse(R"([{"name": "f"}])"))})});
}

// REQUIRES: there are chunks.
v1::GenerateChunk Chunk(ResponseEncoder& encoder, const TokenDelta& delta) {
  return encoder.Add(delta)->chunk();
}

std::vector<uint32_t> Vector(const auto& repeated) {
  return {repeated.begin(), repeated.end()};
}

constexpr char kThought[] = "hm\n</think>\n\nI call.\n\n";
constexpr char kCall[] =
    "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n"
    "</function>\n</tool_call>";

TEST(ResponseParsingTest, ChunksHaveWhatIsCertainOfReasoningTextAndCalls) {
  ResponseEncoder encoder =
      ParsingEncoder(OneRequest(/*logprobs=*/true), /*chunks=*/true);

  const v1::GenerateChunk thought = Chunk(encoder, Delta({10}, kThought));
  const v1::GenerateChunk call = Chunk(encoder, Delta({11}, kCall));
  const v1::GenerateChunk held = Chunk(encoder, Delta({12}, "\n<tool_"));
  TokenDelta end;
  EXPECT_FALSE(encoder.HasOutput(end));
  end.end = absl::UnavailableError("lost");
  EXPECT_FALSE(encoder.HasOutput(end));
  end.end = Completion();
  ASSERT_TRUE(encoder.HasOutput(end));
  EXPECT_GT(encoder.kept_bytes(), 0u);
  const v1::GenerateChunk rest = Chunk(encoder, end);

  EXPECT_EQ(thought.reasoning_content(), "hm");
  EXPECT_EQ(thought.text(), "I call.");
  EXPECT_EQ(thought.output_logprobs_size(), 1);
  ASSERT_EQ(call.tool_calls_size(), 1);
  EXPECT_EQ(call.text(), "");
  EXPECT_EQ(call.tool_calls(0).name(), "f");
  EXPECT_EQ(call.tool_calls(0).arguments_json(), R"({"a": 1})");
  EXPECT_EQ(call.tool_calls(0).id().size(), std::string("call_").size() + 24);
  EXPECT_EQ(Vector(held.token_ids()), (std::vector<uint32_t>{12}));
  EXPECT_EQ(held.text(), "");
  EXPECT_EQ(rest.text(), "\n<tool_");
  EXPECT_EQ(encoder.kept_bytes(), 0u);
}

TEST(ResponseParsingTest, TheCompleteMessageHasAllThatWasParsed) {
  Request request = OneRequest(/*logprobs=*/true);
  ResponseEncoder encoder = ParsingEncoder(request, /*chunks=*/false);
  encoder.Add(Delta({10}, std::string(kThought) + kCall));
  const size_t kept = encoder.kept_bytes();
  TokenDelta last = Delta({11}, std::string("\n") + kCall + "\n<");
  last.end = Completion();
  encoder.Add(last);
  request.choice = 1;
  ResponseEncoder other = ParsingEncoder(request, /*chunks=*/false);
  other.Add(Delta({10}, std::string(kThought) + kCall));

  const auto complete = encoder.Complete(Completion()).complete();
  const auto of_other = other.Complete(Completion()).complete();

  EXPECT_GT(kept, 0u);
  EXPECT_EQ(complete.reasoning_content(), "hm");
  EXPECT_EQ(complete.text(), "I call.\n<");
  EXPECT_EQ(complete.output_ids_size(), 2);
  EXPECT_EQ(complete.output_logprobs_size(), 2);
  ASSERT_EQ(complete.tool_calls_size(), 2);
  EXPECT_NE(complete.tool_calls(0).id(), complete.tool_calls(1).id());
  ASSERT_EQ(of_other.tool_calls_size(), 1);
  EXPECT_NE(of_other.tool_calls(0).id(), complete.tool_calls(0).id());
}

TEST(ResponseParsingTest, AResumedTextIsParsedFromWhereItStopped) {
  const std::string text = std::string(kThought) + kCall + "\n" + kCall;
  const auto ids = testing::MakeTinyTokenizer()->Encode(text);
  ASSERT_TRUE(ids.ok());
  ResponseEncoder whole =
      ParsingEncoder(OneRequest(/*logprobs=*/false), /*chunks=*/true);
  const v1::GenerateChunk all = Chunk(whole, Delta({}, text));
  const auto tokenizer = testing::MakeTinyTokenizer();
  for (size_t had = 0; had <= ids->size(); ++had) {
    Request request = OneRequest(/*logprobs=*/false);
    request.resumed.assign(ids->begin(), ids->begin() + had);
    const size_t bytes = tokenizer->Decode(request.resumed).size();
    ResponseEncoder before =
        ParsingEncoder(OneRequest(/*logprobs=*/false), /*chunks=*/true);
    const v1::GenerateChunk first =
        Chunk(before, Delta({}, text.substr(0, bytes)));
    ResponseEncoder after = ParsingEncoder(request, /*chunks=*/true);
    const v1::GenerateChunk second =
        Chunk(after, Delta({}, text.substr(bytes)));

    EXPECT_EQ(first.reasoning_content() + second.reasoning_content(), "hm");
    EXPECT_EQ(first.text() + second.text(), "I call.");
    ASSERT_EQ(first.tool_calls_size() + second.tool_calls_size(), 2);
    const v1::ToolCall& last = second.tool_calls_size() > 0
                                   ? *second.tool_calls().rbegin()
                                   : first.tool_calls(1);
    EXPECT_EQ(last.id(), all.tool_calls(1).id());
  }
}

}  // namespace
}  // namespace bole
