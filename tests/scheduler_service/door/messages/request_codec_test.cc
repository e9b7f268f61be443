#include "scheduler_service/door/messages/request_codec.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/field_error.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/served_model.h"

namespace bole {
namespace {

using namespace std::chrono_literals;
using testing::TinyText;
using testing::TinyWorker;

v1::GenerateRequest Ids(const std::vector<uint32_t>& ids) {
  v1::GenerateRequest message;
  message.mutable_token_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  return message;
}

v1::GenerateRequest Text(const std::string& text) {
  v1::GenerateRequest message;
  message.set_text(text);
  return message;
}

absl::StatusOr<RequestBody> Decode(const v1::GenerateRequest& message) {
  static const auto& text = *new ModelText(TinyText());
  return DecodeGenerate(message, text, TinyWorker());
}

TEST(RequestCodecTest, IdsAreThePrompt) {
  const auto body = Decode(Ids({1, 302, 0}));

  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(std::get<0>(body->prompt), (std::vector<int32_t>{1, 302, 0}));
}

TEST(RequestCodecTest, OfTooManyIdsOnlyOneMoreThanFitsIsRead) {
  const auto body = Decode(Ids(std::vector<uint32_t>(10'000, 1)));

  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(std::get<0>(body->prompt).size(), 101u);
}

TEST(RequestCodecTest, TextIsNotYetTokenized) {
  const auto body = Decode(Text("abc<s>"));

  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(std::get<std::string>(body->prompt), "abc<s>");
}

TEST(RequestCodecTest, AChatIsRendered) {
  v1::GenerateRequest message;
  v1::ChatMessage& turn = *message.mutable_chat()->add_messages();
  turn.set_role("user");
  turn.set_content("x");

  const auto body = Decode(message);

  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(std::get<std::string>(body->prompt), "user:x;assistant:");
}

TEST(RequestCodecTest, TheIdIsTheMessages) {
  v1::GenerateRequest message = Ids({1});
  EXPECT_EQ(Decode(message)->id, "");

  message.set_request_id("mine");
  EXPECT_EQ(Decode(message)->id, "mine");
}

TEST(RequestCodecTest, TheCacheSaltArrives) {
  v1::GenerateRequest message = Ids({1});
  message.set_cache_salt(std::string(kMaxCacheSaltBytes, 's'));

  EXPECT_EQ(Decode(message)->cache_salt, message.cache_salt());
}

TEST(RequestCodecTest, WithoutAnOverrideNothingIsBounded) {
  v1::GenerateRequest message = Ids({1});
  EXPECT_EQ(Decode(message)->speculation, std::nullopt);
  message.mutable_speculation()->set_mode(v1::SPECULATION_MODE_TREE);
  EXPECT_EQ(Decode(message)->speculation, std::nullopt);
}

TEST(RequestCodecTest, EveryBoundOfAnOverrideArrives) {
  v1::GenerateRequest message = Ids({1});
  v1::SpeculationOverride& speculation = *message.mutable_speculation();
  speculation.set_mode(v1::SPECULATION_MODE_OFF);
  EXPECT_EQ(Decode(message)->speculation,
            (SpeculationOverride{.mode = SpeculationMode::kOff}));
  speculation.set_mode(v1::SPECULATION_MODE_CHAIN);
  EXPECT_EQ(Decode(message)->speculation,
            (SpeculationOverride{.mode = SpeculationMode::kChain}));
  speculation.clear_mode();
  speculation.set_nodes(kMaxOverrideNodes);
  EXPECT_EQ(Decode(message)->speculation,
            (SpeculationOverride{.max_nodes = 128}));
  speculation.set_depth(1);
  EXPECT_EQ(Decode(message)->speculation,
            (SpeculationOverride{.max_nodes = 128, .max_depth = 1}));
}

TEST(RequestCodecTest, EveryTargetArrives) {
  v1::GenerateRequest message = Ids({1});
  EXPECT_EQ(Decode(message)->targets.time_to_first_token, std::nullopt);
  EXPECT_EQ(Decode(message)->targets.time_per_output_token, std::nullopt);
  v1::LatencyTargets& targets = *message.mutable_targets();
  targets.set_time_per_output_token_ms(1);
  EXPECT_EQ(Decode(message)->targets.time_to_first_token, std::nullopt);
  EXPECT_EQ(Decode(message)->targets.time_per_output_token, 1ms);
  targets.set_time_to_first_token_ms(kMaxTargetMs);
  EXPECT_EQ(Decode(message)->targets.time_to_first_token, 3'600s);
}

TEST(RequestCodecTest, StopStringsArrive) {
  v1::GenerateRequest message = Ids({1});
  message.mutable_sampling_params()->add_stop("END");

  EXPECT_EQ(Decode(message)->text.stop, (std::vector<std::string>{"END"}));
}

TEST(RequestCodecTest, PriorityAndWhatIsResumedArrive) {
  v1::GenerateRequest message = Ids({1});
  EXPECT_EQ(Decode(message)->priority, 0);
  message.set_priority(7);
  v1::ResumedChoice& had = *message.add_resume();
  for (uint32_t id = 0; id < 200; ++id) had.add_output_ids(id);

  const auto body = Decode(message);

  EXPECT_EQ(body->priority, 7);
  ASSERT_EQ(body->resumed.size(), 1u);
  EXPECT_FALSE(body->resumed[0].complete);
  ASSERT_EQ(body->resumed[0].output.size(), 101u);  // One more than fits.
  EXPECT_EQ(body->resumed[0].output[3], 3);
}

TEST(RequestCodecTest, ChoicesArriveWithWhatTheClientHasOfThem) {
  v1::GenerateRequest message = Ids({1});
  EXPECT_EQ(Decode(message)->num_choices, 1u);
  message.set_n(2);
  message.add_resume()->set_complete(true);
  message.add_resume()->add_output_ids(5);

  const auto body = Decode(message);

  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(body->num_choices, 2u);
  ASSERT_EQ(body->resumed.size(), 2u);
  EXPECT_TRUE(body->resumed[0].complete);
  EXPECT_EQ(body->resumed[1].output, (std::vector<int32_t>{5}));
}

TEST(RequestCodecTest, WhatIsToBeToldOfThePromptArrives) {
  v1::GenerateRequest message = Ids({1});
  EXPECT_FALSE(Decode(message)->echo);
  EXPECT_FALSE(Decode(message)->sampling.prompt_logprobs.has_value());
  message.set_echo(true);
  message.set_prompt_logprobs(0);

  const auto body = Decode(message);

  EXPECT_TRUE(body->echo);
  EXPECT_EQ(body->sampling.prompt_logprobs, 0);
}

struct Wrong {
  std::string name;
  std::function<void(v1::GenerateRequest&)> spoil;
  std::string field;  // As the message has it.
  std::string value;
  std::string path;
};

class WrongRequestTest : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongRequestTest, IsRefusedWithFieldAndValue) {
  v1::GenerateRequest message = Ids({1});
  GetParam().spoil(message);

  const absl::Status status = Decode(message).status();

  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  const std::string text(status.message());
  EXPECT_NE(text.find(GetParam().field), text.npos) << text;
  EXPECT_NE(text.find(GetParam().value), text.npos) << text;
  EXPECT_EQ(FieldOf(status), GetParam().path) << text;
}

using Message = v1::GenerateRequest;

INSTANTIATE_TEST_SUITE_P(
    Fields, WrongRequestTest,
    ::testing::Values(
        Wrong{"no_input", [](Message& m) { m.clear_input(); }, "input",
              "not set", "input"},
        Wrong{"sampling",
              [](Message& m) {
                m.mutable_sampling_params()->set_temperature(-1);
              },
              "sampling_params: temperature", "-1",
              "sampling_params.temperature"},
        Wrong{"stop_string",
              [](Message& m) { m.mutable_sampling_params()->add_stop(""); },
              "sampling_params.stop[0]", "0", "sampling_params.stop[0]"},
        Wrong{"chat_without_a_role",
              [](Message& m) { m.mutable_chat()->add_messages(); },
              "chat.messages[0].role", "''", "chat.messages[0].role"},
        Wrong{"long_cache_salt",
              [](Message& m) { m.set_cache_salt(std::string(129, 's')); },
              "the size of cache_salt", "129", "cache_salt"},
        Wrong{"unknown_speculation",
              [](Message& m) {
                m.mutable_speculation()->set_mode(
                    static_cast<v1::SpeculationMode>(9));
              },
              "speculation.mode", "9", "speculation.mode"},
        Wrong{"no_node",
              [](Message& m) { m.mutable_speculation()->set_nodes(0); },
              "speculation.nodes", "0", "speculation.nodes"},
        Wrong{"too_many_nodes",
              [](Message& m) { m.mutable_speculation()->set_nodes(129); },
              "speculation.nodes", "129", "speculation.nodes"},
        Wrong{"no_depth",
              [](Message& m) { m.mutable_speculation()->set_depth(0); },
              "speculation.depth", "0", "speculation.depth"},
        Wrong{"too_deep",
              [](Message& m) { m.mutable_speculation()->set_depth(17); },
              "speculation.depth", "17", "speculation.depth"},
        Wrong{"no_time_to_the_first_token",
              [](Message& m) {
                m.mutable_targets()->set_time_to_first_token_ms(0);
              },
              "targets.time_to_first_token_ms", "0",
              "targets.time_to_first_token_ms"},
        Wrong{"more_than_an_hour_to_the_first_token",
              [](Message& m) {
                m.mutable_targets()->set_time_to_first_token_ms(3'600'001);
              },
              "targets.time_to_first_token_ms", "3600001",
              "targets.time_to_first_token_ms"},
        Wrong{"no_time_per_token",
              [](Message& m) {
                m.mutable_targets()->set_time_per_output_token_ms(0);
              },
              "targets.time_per_output_token_ms", "0",
              "targets.time_per_output_token_ms"},
        Wrong{"more_than_an_hour_per_token",
              [](Message& m) {
                m.mutable_targets()->set_time_per_output_token_ms(3'600'001);
              },
              "targets.time_per_output_token_ms", "3600001",
              "targets.time_per_output_token_ms"},
        Wrong{"no_choice", [](Message& m) { m.set_n(0); }, "n is", "0", "n"},
        Wrong{"too_many_choices", [](Message& m) { m.set_n(17); }, "n is", "17",
              "n"},
        Wrong{"too_many_prompt_logprobs",
              [](Message& m) { m.set_prompt_logprobs(21); }, "prompt_logprobs",
              "21", "prompt_logprobs"},
        Wrong{"resume_of_two_choices",
              [](Message& m) {
                m.add_resume();
                m.add_resume();
              },
              "resume", "2", "resume"}),
    [](const auto& test) { return test.param.name; });

TEST(RequestCodecTest, WhatIsNotOfferedIsNamed) {
  const std::vector<std::pair<std::string, std::function<void(Message&)>>>
      cases = {
          {"json_schema", [](Message& m) { m.set_json_schema("{}"); }},
          {"regex", [](Message& m) { m.set_regex("a*"); }},
          {"choice", [](Message& m) { m.mutable_choice(); }},
          {"grammar", [](Message& m) { m.set_grammar(""); }},
      };
  for (const auto& [field, ask] : cases) {
    v1::GenerateRequest message = Ids({1});
    ask(message);

    const absl::Status status = Decode(message).status();

    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << field;
    EXPECT_EQ(FieldOf(status), field);
  }
}

TEST(TokenizeTest, AnswersIdsAndTheTextTheyCameFrom) {
  const ModelText text = TinyText();
  v1::TokenizeRequest request;
  request.set_text("ab<s>");

  const auto parsed = Tokenize(request, text);
  request.set_parse_special_tokens(false);
  const auto plain = Tokenize(request, text);

  ASSERT_TRUE(parsed.ok() && plain.ok());
  EXPECT_EQ(std::vector<int32_t>(parsed->input_ids().begin(),
                                 parsed->input_ids().end()),
            (std::vector<int32_t>{256, 300}));
  EXPECT_EQ(parsed->text(), "ab<s>");
  EXPECT_EQ(plain->input_ids_size(), 4);
}

TEST(TokenizeTest, RendersAChat) {
  v1::TokenizeRequest request;
  v1::ChatMessage& turn = *request.mutable_chat()->add_messages();
  turn.set_role("user");
  turn.set_content("x");

  const auto response = Tokenize(request, TinyText());

  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->text(), "user:x;assistant:");
  EXPECT_GT(response->input_ids_size(), 0);
}

TEST(TokenizeTest, RefusesWhatIsMissingOrTooLong) {
  v1::TokenizeRequest request;
  EXPECT_EQ(Tokenize(request, TinyText()).status().code(),
            absl::StatusCode::kInvalidArgument);

  request.set_text(std::string(kMaxTextBytes + 1, 'q'));
  EXPECT_EQ(Tokenize(request, TinyText()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(DetokenizeTest, AnswersTheText) {
  v1::DetokenizeRequest request;
  for (const uint32_t id : {256u, 300u, 99u}) request.add_ids(id);

  const auto with = Detokenize(request, TinyText());
  request.set_skip_special_tokens(true);
  const auto without = Detokenize(request, TinyText());

  ASSERT_TRUE(with.ok() && without.ok());
  EXPECT_EQ(with->text(), "ab<s>c");
  EXPECT_EQ(without->text(), "abc");
}

TEST(DetokenizeTest, RefusesIdsThatNoTokenHasAndTooMany) {
  v1::DetokenizeRequest request;
  request.add_ids(303);
  const absl::Status unknown = Detokenize(request, TinyText()).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(unknown.message().find("ids[0] is 303"), absl::string_view::npos);

  request.clear_ids();
  for (int i = 0; i <= kMaxDetokenizeIds; ++i) request.add_ids(1);
  EXPECT_EQ(Detokenize(request, TinyText()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace bole
