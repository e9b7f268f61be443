#include "scheduler_service/door/openai/openai_request.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/field_error.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "scheduler_service/door/messages/chat_codec.h"

namespace bole {
namespace {

constexpr char kHi[] = R"("messages":[{"role":"user","content":"hi"}])";
constexpr char kHiMessage[] =
    R"(chat { messages { role: "user" content: "hi" } parse_output: true } )";

std::string With(const std::string& fields, const std::string& more) {
  return absl::StrCat("{", fields, more.empty() ? "" : ",", more, "}");
}

// The body becomes the message of this text format, `stream` aside.
void ExpectReads(OpenAiApi api, const std::string& body,
                 const std::string& message) {
  SCOPED_TRACE(body);
  auto request = ReadOpenAiRequest(api, body);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->message.stream(), request->stream);
  request->message.clear_stream();
  v1::GenerateRequest expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(message, &expected))
      << message;
  expected.mutable_sampling_params();
  google::protobuf::util::MessageDifferencer differencer;
  std::string difference;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(expected, request->message)) << difference;
}

void ExpectRefuses(OpenAiApi api, const std::string& body,
                   absl::StatusCode code, const std::string& param) {
  SCOPED_TRACE(body);
  const auto request = ReadOpenAiRequest(api, body);
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.status().code(), code) << request.status();
  EXPECT_EQ(FieldOf(request.status()).value_or(""), param) << request.status();
}

TEST(OpenAiRequestTest, ReadsEachFieldOfAChat) {
  const struct {
    const char* json;
    const char* message;
  } kRows[] = {
      {R"()", ""},
      {R"("model":"m","user":"u","metadata":{"a":"b"},"store":false)",
       R"(model: "m")"},
      {R"("temperature":0.5,"top_p":1)",
       "sampling_params { temperature: 0.5 top_p: 1 }"},
      {R"("top_k":-1,"min_p":0.25)",
       "sampling_params { top_k: 0 min_p: 0.25 }"},
      {R"("max_tokens":7)", "sampling_params { max_tokens: 7 }"},
      {R"("max_completion_tokens":7,"max_tokens":7)",
       "sampling_params { max_tokens: 7 }"},
      {R"("n":3)", "n: 3"},
      {R"("stop":"x")", R"(sampling_params { stop: "x" })"},
      {R"("stop":["x","y"])", R"(sampling_params { stop: "x" stop: "y" })"},
      {R"("stop":null,"seed":9007199254740993)",
       "sampling_params { seed: 9007199254740993 }"},
      {R"("logprobs":true)", "sampling_params { logprobs: 0 }"},
      {R"("logprobs":true,"top_logprobs":4)",
       "sampling_params { logprobs: 4 }"},
      {R"("logit_bias":{"5":-100,"7":1.5})",
       "sampling_params { logit_bias { key: 5 value: -100 } logit_bias { key: "
       "7 "
       "value: 1.5 } }"},
      {R"("presence_penalty":1,"frequency_penalty":-1)",
       "sampling_params { presence_penalty: 1 frequency_penalty: -1 }"},
      {R"("repetition_penalty":1.5,"min_tokens":2)",
       "sampling_params { repetition_penalty: 1.5 min_tokens: 2 }"},
      {R"("ignore_eos":true,"stop_token_ids":[3,4])",
       "sampling_params { ignore_eos: true stop_token_ids: [3, 4] }"},
      {R"("skip_special_tokens":false,"include_stop_str_in_output":true)",
       "sampling_params { skip_special_tokens: false "
       "include_stop_str_in_output: true }"},
      {R"("priority":-3,"cache_salt":"s","prompt_logprobs":2)",
       R"(priority: -3 cache_salt: "s" prompt_logprobs: 2)"},
      {R"("speculation":{"mode":"chain","nodes":8,"depth":3})",
       "speculation { mode: SPECULATION_MODE_CHAIN nodes: 8 depth: 3 }"},
      {R"("targets":{"ttft_ms":200,"tpot_ms":20})",
       "targets { time_to_first_token_ms: 200 time_per_output_token_ms: 20 }"},
      {R"("chat_template_kwargs":{"enable_thinking":false})",
       R"(chat { template_kwargs_json: "{\"enable_thinking\":false}" })"},
      {R"("add_generation_prompt":false)",
       "chat { add_generation_prompt: false }"},
      {R"("tool_choice":"none","parallel_tool_calls":true)",
       "chat { tool_choice: TOOL_CHOICE_NONE }"},
      {R"("response_format":{"type":"text"},"modalities":["text"])", ""},
  };
  for (const auto& row : kRows) {
    // Text format lets a message be given in parts only through merging.
    v1::GenerateRequest base;
    v1::GenerateRequest more;
    ASSERT_TRUE(
        google::protobuf::TextFormat::ParseFromString(kHiMessage, &base));
    ASSERT_TRUE(
        google::protobuf::TextFormat::ParseFromString(row.message, &more))
        << row.message;
    base.MergeFrom(more);
    ExpectReads(OpenAiApi::kChat, With(kHi, row.json), base.DebugString());
  }
}

TEST(OpenAiRequestTest, KeepsTheOrderOfATool) {
  ExpectReads(
      OpenAiApi::kChat,
      With(kHi, R"("tools":[{"type":"function","function":{"name":"f",)"
                R"("strict":false,"parameters":{"z":1,"a":2}}}])"),
      R"(chat { messages { role: "user" content: "hi" } parse_output: true
         tools_json: "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"z\":1,\"a\":2}}}" })");
}

TEST(OpenAiRequestTest, AToolMayNestAsDeepAsOverGrpc) {
  // The tool itself and its function are two levels.
  const auto body = [](int levels) {
    std::string parameters = "1";
    for (int i = 2; i < levels; ++i) {
      parameters = absl::StrCat("{\"a\":", parameters, "}");
    }
    return With(kHi, absl::StrCat(R"("tools":[{"type":"function","function":)"
                                  R"({"name":"f","parameters":)",
                                  parameters, "}}]"));
  };

  const auto read = ReadOpenAiRequest(OpenAiApi::kChat, body(kMaxJsonDepth));
  EXPECT_TRUE(read.ok()) << read.status();
  ExpectRefuses(OpenAiApi::kChat, body(kMaxJsonDepth + 1),
                absl::StatusCode::kInvalidArgument, "");
}

TEST(OpenAiRequestTest, ReadsAConversation) {
  ExpectReads(OpenAiApi::kChat,
              R"({"messages":[
        {"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
        {"role":"assistant","content":null,"refusal":null,"annotations":[],
         "reasoning_content":"r","tool_calls":[{"id":"c1","type":"function",
         "function":{"name":"f","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"c1","content":"4","name":"f"}]})",
              R"(chat { parse_output: true
         messages { role: "system" content: "ab" }
         messages { role: "assistant" reasoning_content: "r"
                    tool_calls { id: "c1" name: "f" arguments_json: "{}" } }
         messages { role: "tool" tool_call_id: "c1" content: "4" name: "f" } })");
}

TEST(OpenAiRequestTest, ReadsCompletions) {
  ExpectReads(OpenAiApi::kCompletions, R"({"prompt":"a"})",
              R"(text: "a" echo: false)");
  ExpectReads(OpenAiApi::kCompletions, R"({"prompt":["a"],"best_of":1})",
              R"(text: "a" echo: false)");
  ExpectReads(OpenAiApi::kCompletions, R"({"prompt":[[1,2]]})",
              "token_ids { ids: [1, 2] } echo: false");
  ExpectReads(OpenAiApi::kCompletions,
              R"({"prompt":[1,2],"echo":true,"logprobs":3})",
              "token_ids { ids: [1, 2] } echo: true prompt_logprobs: 3 "
              "sampling_params { logprobs: 3 }");
}

TEST(OpenAiRequestTest, ReadsResponses) {
  ExpectReads(
      OpenAiApi::kResponses,
      R"({"instructions":"i","max_output_tokens":5,"store":false,"input":[
        {"role":"user","content":[{"type":"input_text","text":"q"}]},
        {"type":"reasoning","id":"rs_1","summary":[],
         "content":[{"type":"reasoning_text","text":"t"}]},
        {"type":"message","id":"msg_1","status":"completed","role":"assistant",
         "content":[{"type":"output_text","text":"w","annotations":[]}]},
        {"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
        {"type":"function_call_output","call_id":"c","output":"4"}]})",
      R"(sampling_params { max_tokens: 5 } chat { parse_output: true
         messages { role: "system" content: "i" }
         messages { role: "user" content: "q" }
         messages { role: "assistant" reasoning_content: "t" content: "w"
                    tool_calls { id: "c" name: "f" arguments_json: "{}" } }
         messages { role: "tool" tool_call_id: "c" content: "4" } })");
}

TEST(OpenAiRequestTest, ReadsHowToStream) {
  const auto request = ReadOpenAiRequest(
      OpenAiApi::kChat,
      With(kHi, R"("stream":true,"stream_options":{"include_usage":true})"));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_TRUE(request->stream);
  EXPECT_TRUE(request->include_usage);
}

TEST(OpenAiRequestTest, NamesWhatIsWrong) {
  const struct {
    const char* json;
    const char* param;
  } kRows[] = {
      {R"("temperature":"hot")", "temperature"},
      {R"("temperature":1e300)", "temperature"},
      {R"("max_tokens":1.5)", "max_tokens"},
      {R"("max_tokens":4294967297)", "max_tokens"},
      {R"("max_completion_tokens":7,"max_tokens":8)", "max_tokens"},
      {R"("seed":-1)", "seed"},
      {R"("seed":18446744073709551615)", "seed"},
      {R"("n":-1)", "n"},
      {R"("stop":5)", "stop"},
      {R"("stop":["a",5])", "stop[1]"},
      {R"("stop_token_ids":[-1])", "stop_token_ids[0]"},
      {R"("logit_bias":{"5":101})", "logit_bias.5"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":{"5":1,"05":2})", "logit_bias.5"},
      {R"("top_logprobs":3)", "top_logprobs"},
      {R"("stream":"yes")", "stream"},
      {R"("stream_options":{})", "stream_options"},
      {R"("speculation":{"mode":"bush"})", "speculation.mode"},
      {R"("tool_choice":"maybe")", "tool_choice"},
      {R"("tools":[{"type":"function"}])", "tools[0].function"},
  };
  for (const auto& row : kRows) {
    ExpectRefuses(OpenAiApi::kChat, With(kHi, row.json),
                  absl::StatusCode::kInvalidArgument, row.param);
  }
  ExpectRefuses(OpenAiApi::kChat, "{}", absl::StatusCode::kInvalidArgument,
                "messages");
  ExpectRefuses(OpenAiApi::kChat, R"({"messages":[{"role":"king"}]})",
                absl::StatusCode::kInvalidArgument, "messages[0].role");
  ExpectRefuses(OpenAiApi::kChat, R"({"n":NaN})",
                absl::StatusCode::kInvalidArgument, "");
  ExpectRefuses(OpenAiApi::kChat, R"({"n":1,"n":2})",
                absl::StatusCode::kInvalidArgument, "");
  ExpectRefuses(OpenAiApi::kChat, "[]", absl::StatusCode::kInvalidArgument, "");
}

TEST(OpenAiRequestTest, NamesWhatIsNotOffered) {
  const struct {
    const char* json;
    const char* param;
  } kRows[] = {
      {R"("colour":"red")", "colour"},
      {R"("reasoning_effort":"high")", "reasoning_effort"},
      {R"("functions":[])", "functions"},
      {R"("web_search_options":{})", "web_search_options"},
      {R"("prediction":{})", "prediction"},
      {R"("modalities":["text","audio"])", "modalities"},
      {R"("service_tier":"flex")", "service_tier"},
      {R"("store":true)", "store"},
      {R"("echo":true)", "echo"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("tool_choice":{"type":"function"})", "tool_choice"},
      {R"("parallel_tool_calls":false)", "parallel_tool_calls"},
      {R"("response_format":{"type":"json_object"})", "response_format.type"},
      {R"("targets":{"ttft":1})", "targets.ttft"},
      {R"("tools":[{"type":"custom"}])", "tools[0].type"},
      {R"("tools":[{"type":"function","function":{"name":"f","strict":true}}])",
       "tools[0].function.strict"},
  };
  for (const auto& row : kRows) {
    ExpectRefuses(OpenAiApi::kChat, With(kHi, row.json),
                  absl::StatusCode::kUnimplemented, row.param);
  }
  ExpectRefuses(OpenAiApi::kChat,
                R"({"messages":[{"role":"user","content":[{"type":"text",)"
                R"("text":"a"},{"type":"image_url","image_url":{}}]}]})",
                absl::StatusCode::kUnimplemented,
                "messages[0].content[1].type");
  ExpectRefuses(OpenAiApi::kCompletions, R"({"prompt":["a","b"]})",
                absl::StatusCode::kUnimplemented, "prompt");
  ExpectRefuses(OpenAiApi::kCompletions, R"({"prompt":"a","suffix":"b"})",
                absl::StatusCode::kUnimplemented, "suffix");
  for (const char* field :
       {R"("previous_response_id":"r")", R"("background":true)",
        R"("store":true)", R"("truncation":"auto")", R"("reasoning":{})"}) {
    const std::string name(field + 1, std::string(field).find('"', 1) - 1);
    ExpectRefuses(OpenAiApi::kResponses, With(R"("input":"a")", field),
                  absl::StatusCode::kUnimplemented, name);
  }
  ExpectRefuses(OpenAiApi::kResponses,
                R"({"input":[{"type":"item_reference","id":"x"}]})",
                absl::StatusCode::kUnimplemented, "input[0].type");
}

}  // namespace
}  // namespace bole
