#include "scheduler_service/request_codec.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/served_model.h"

namespace bole {
namespace {

using testing::TinyText;
using testing::TinyWorker;

v1::GenerateRequest Ids(const std::vector<uint32_t>& ids) {
  v1::GenerateRequest message;
  message.mutable_tokenized()->mutable_input_ids()->Add(ids.begin(), ids.end());
  return message;
}

v1::GenerateRequest Text(const std::string& text) {
  v1::GenerateRequest message;
  message.set_text(text);
  return message;
}

absl::StatusOr<std::unique_ptr<Request>> Decode(
    const v1::GenerateRequest& message) {
  static const auto& text = *new ModelText(TinyText());
  return DecodeGenerate(message, text, TinyWorker());
}

TEST(RequestCodecTest, IdsAreThePrompt) {
  const auto request = Decode(Ids({1, 302, 0}));

  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ((*request)->prompt, (std::vector<int32_t>{1, 302, 0}));
}

TEST(RequestCodecTest, TextIsTokenizedSpecialTokensIncluded) {
  const auto request = Decode(Text("abc<s>"));

  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ((*request)->prompt, (std::vector<int32_t>{'a', 257, 300}));
}

TEST(RequestCodecTest, ChatIsRenderedAndThenTokenized) {
  v1::GenerateRequest message;
  v1::ChatMessage& turn = *message.mutable_chat()->add_messages();
  turn.set_role("user");
  turn.set_content("x");

  const auto chat = Decode(message);
  const auto text = Decode(Text("user:x;assistant:"));

  ASSERT_TRUE(chat.ok()) << chat.status();
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ((*chat)->prompt, (*text)->prompt);
}

TEST(RequestCodecTest, AnIdIsEchoedOrMadeUp) {
  v1::GenerateRequest message = Ids({1});
  std::set<std::string> made_up;
  for (int i = 0; i < 100; ++i) made_up.insert((*Decode(message))->id);
  message.set_request_id(std::string(kMaxRequestIdBytes, 'i'));

  EXPECT_EQ(made_up.size(), 100u);
  EXPECT_EQ(made_up.count(""), 0u);
  EXPECT_EQ((*Decode(message))->id, message.request_id());
}

TEST(RequestCodecTest, BytesAreThoseOfTheMessage) {
  const v1::GenerateRequest message = Text(std::string(50, 'q'));

  EXPECT_EQ((*Decode(message))->bytes, message.SerializeAsString().size());
}

TEST(RequestCodecTest, MaxTokensIsWhatFitsUnlessItIsLess) {
  v1::GenerateRequest message = Ids(std::vector<uint32_t>(60, 1));
  EXPECT_EQ((*Decode(message))->sampling.max_tokens, 40);

  message.mutable_sampling_params()->set_max_tokens(40);
  EXPECT_EQ((*Decode(message))->sampling.max_tokens, 40);

  message.mutable_sampling_params()->set_max_tokens(39);
  EXPECT_EQ((*Decode(message))->sampling.max_tokens, 39);

  message.mutable_sampling_params()->set_max_tokens(1 << 30);
  EXPECT_EQ((*Decode(message))->sampling.max_tokens, 40);
}

TEST(RequestCodecTest, APromptMayLeaveRoomForOneToken) {
  const auto request = Decode(Ids(std::vector<uint32_t>(99, 1)));

  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ((*request)->sampling.max_tokens, 1);
}

TEST(RequestCodecTest, FewPagesHoldLessThanTheContext) {
  StepLimits limits = TinyWorker().limits;
  EXPECT_EQ(ContextCapacity(limits), 100);

  // 80 rows, of which a tree of depth 3 needs those behind the tokens.
  limits.num_pages = 10;
  const int capacity = ContextCapacity(limits);
  EXPECT_EQ(limits.KvRows(capacity, 0, limits.max_draft), 80);

  limits.num_pages = 1;
  limits.page_size = 1;
  EXPECT_EQ(ContextCapacity(limits), 0);
}

TEST(RequestCodecTest, TheModelsStopTokensAddToTheRequests) {
  v1::GenerateRequest message = Ids({1});
  message.mutable_sampling_params()->add_stop_token_ids(7);
  message.mutable_sampling_params()->add_stop_token_ids(300);

  EXPECT_EQ((*Decode(message))->stop_tokens,
            (std::vector<int32_t>{7, 300, 302}));

  message.mutable_sampling_params()->set_ignore_eos(true);
  EXPECT_EQ((*Decode(message))->stop_tokens, (std::vector<int32_t>{7, 300}));
}

TEST(RequestCodecTest, StopStringsArrive) {
  v1::GenerateRequest message = Ids({1});
  message.mutable_sampling_params()->add_stop("END");

  EXPECT_EQ((*Decode(message))->text.stop, (std::vector<std::string>{"END"}));
}

TEST(RequestCodecTest, TheModelsNameIsAcceptedAndNoOther) {
  v1::GenerateRequest message = Ids({1});
  message.set_model("tiny");
  EXPECT_TRUE(Decode(message).ok());

  message.set_model("huge");
  const absl::Status status = Decode(message).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("'huge'"), absl::string_view::npos);
}

struct Wrong {
  std::string name;
  std::function<void(v1::GenerateRequest&)> spoil;
  std::string field;
  std::string value;
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
}

using Message = v1::GenerateRequest;

INSTANTIATE_TEST_SUITE_P(
    Fields, WrongRequestTest,
    ::testing::Values(
        Wrong{"long_id",
              [](Message& m) { m.set_request_id(std::string(129, 'i')); },
              "request_id", "129"},
        Wrong{"id_not_utf8", [](Message& m) { m.set_request_id("\xFF"); },
              "request_id", "'?'"},
        Wrong{"no_input", [](Message& m) { m.clear_input(); }, "input",
              "not set"},
        Wrong{"no_tokens",
              [](Message& m) { m.mutable_tokenized()->clear_input_ids(); },
              "prompt tokens", "0"},
        Wrong{"empty_text", [](Message& m) { m.set_text(""); }, "prompt tokens",
              "0"},
        Wrong{"token_outside_the_vocabulary",
              [](Message& m) { m.mutable_tokenized()->add_input_ids(303); },
              "prompt token 1", "303"},
        Wrong{"token_beyond_int32",
              [](Message& m) {
                m.mutable_tokenized()->add_input_ids(4'294'967'295u);
              },
              "prompt token 1", "4294967295"},
        Wrong{"prompt_as_long_as_the_context",
              [](Message& m) { m.set_text(std::string(100, 'q')); }, "prompt",
              "100"},
        Wrong{"prompt_of_ids_far_too_long",
              [](Message& m) {
                for (int i = 0; i < 10'000; ++i) {
                  m.mutable_tokenized()->add_input_ids(1);
                }
              },
              "prompt", "100"},
        Wrong{"text_of_too_many_bytes",
              [](Message& m) { m.set_text(std::string((2 << 20) + 1, 'q')); },
              "text", "2097153"},
        Wrong{"sampling",
              [](Message& m) {
                m.mutable_sampling_params()->set_temperature(-1);
              },
              "sampling_params: temperature", "-1"},
        Wrong{"stop_string",
              [](Message& m) { m.mutable_sampling_params()->add_stop(""); },
              "sampling_params.stop[0]", "0"},
        Wrong{"chat_without_a_role",
              [](Message& m) { m.mutable_chat()->add_messages(); },
              "chat.messages[0].role", "''"}),
    [](const auto& test) { return test.param.name; });

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
