// Requests that are wrong, and requests that are too many: refused at the door,
// by a status that says what to mend, and without a trace.
#include <cstdint>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"
#include "tests/e2e/call.h"
#include "tests/e2e/system.h"

namespace bole::e2e {
namespace {

constexpr char kPrompt[] = "def fibonacci(n):\n";
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kForever = 8000;

// One malformation of a good request.
struct Bad {
  std::string_view field;  // That the message must name.
  void (*spoil)(v1::GenerateRequest& request, v1::SamplingParams& sampling);

  friend void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.field; }
};

using R = v1::GenerateRequest;
using S = v1::SamplingParams;

constexpr Bad kBadSampling[] = {
    {"temperature", [](R&, S& s) { s.set_temperature(-0.1f); }},
    {"temperature", [](R&, S& s) { s.set_temperature(kNan); }},
    {"temperature", [](R&, S& s) { s.set_temperature(1e9f); }},
    {"top_p", [](R&, S& s) { s.set_top_p(0); }},
    {"top_p", [](R&, S& s) { s.set_top_p(1.01f); }},
    {"top_p", [](R&, S& s) { s.set_top_p(kNan); }},
    {"top_k", [](R&, S& s) { s.set_top_k(-1); }},
    {"min_p", [](R&, S& s) { s.set_min_p(-0.5f); }},
    {"min_p", [](R&, S& s) { s.set_min_p(1.5f); }},
    {"frequency_penalty", [](R&, S& s) { s.set_frequency_penalty(3); }},
    {"frequency_penalty", [](R&, S& s) { s.set_frequency_penalty(kNan); }},
    {"presence_penalty", [](R&, S& s) { s.set_presence_penalty(-2.5f); }},
    {"repetition_penalty", [](R&, S& s) { s.set_repetition_penalty(0); }},
    {"repetition_penalty",
     [](R&, S& s) { s.set_repetition_penalty(kInfinity); }},
    {"max_tokens", [](R&, S& s) { s.set_max_tokens(0); }},
    {"max_tokens", [](R&, S& s) { s.set_max_tokens(-5); }},
    {"logprobs", [](R&, S& s) { s.set_logprobs(-1); }},
    {"logprobs", [](R&, S& s) { s.set_logprobs(21); }},
    {"stop_token_ids", [](R&, S& s) { s.add_stop_token_ids(1 << 20); }},
    {"stop_token_ids", [](R&, S& s) { s.add_stop_token_ids(0xFFFFFFFF); }},
    {"stop_token_ids",
     [](R&, S& s) { s.mutable_stop_token_ids()->Resize(65, 1); }},
    {"logit_bias", [](R&, S& s) { (*s.mutable_logit_bias())[0xFFFFFFFF] = 1; }},
    {"logit_bias", [](R&, S& s) { (*s.mutable_logit_bias())[1 << 20] = 1; }},
    {"logit_bias", [](R&, S& s) { (*s.mutable_logit_bias())[5] = 101; }},
    {"logit_bias", [](R&, S& s) { (*s.mutable_logit_bias())[5] = kNan; }},
    {"logit_bias",
     [](R&, S& s) {
       for (int i = 0; i < 1025; ++i) (*s.mutable_logit_bias())[i] = 1;
     }},
    {"stop[1]",
     [](R&, S& s) {
       s.add_stop("fine");
       s.add_stop("");
     }},
    {"stop[0]", [](R&, S& s) { s.add_stop(std::string(257, 'a')); }},
    {"stop",
     [](R&, S& s) {
       for (int i = 0; i < 17; ++i) s.add_stop(std::to_string(i));
     }},
};

constexpr Bad kBadInput[] = {
    {"input", [](R& r, S&) { r.clear_text(); }},
    {"prompt", [](R& r, S&) { r.set_text(""); }},
    {"prompt", [](R& r, S&) { r.mutable_token_ids(); }},
    {"prompt token 1",
     [](R& r, S&) {
       r.mutable_token_ids()->add_ids(1);
       r.mutable_token_ids()->add_ids(1 << 20);
     }},
    {"prompt token 0",
     [](R& r, S&) { r.mutable_token_ids()->add_ids(0xFFFFFFFF); }},
    {"prompt",
     [](R& r, S&) { r.mutable_token_ids()->mutable_ids()->Resize(100000, 1); }},
    {"text", [](R& r, S&) { r.set_text(std::string(3 << 20, 'a')); }},
    {"request_id", [](R& r, S&) { r.set_request_id(std::string(129, 'x')); }},
};

v1::ChatMessage& AddMessage(v1::GenerateRequest& request) {
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content("hello");
  return message;
}

constexpr Bad kBadChat[] = {
    {"messages[1].role",
     [](R& r, S&) {
       AddMessage(r);
       AddMessage(r).clear_role();
     }},
    {"messages[0].role",
     [](R& r, S&) { AddMessage(r).set_role(std::string(65, 'x')); }},
    {"tools_json[0]",
     [](R& r, S&) {
       AddMessage(r);
       r.mutable_chat()->add_tools_json("{");
     }},
    {"tools_json[0]",
     [](R& r, S&) {
       AddMessage(r);
       r.mutable_chat()->add_tools_json("[]");
     }},
    {"template_kwargs_json",
     [](R& r, S&) {
       AddMessage(r);
       r.mutable_chat()->set_template_kwargs_json("enable_thinking");
     }},
    {"template_kwargs_json",
     [](R& r, S&) {
       AddMessage(r);
       r.mutable_chat()->set_template_kwargs_json(R"({"messages": []})");
     }},
    {"template_kwargs_json",
     [](R& r, S&) {
       AddMessage(r);
       r.mutable_chat()->set_template_kwargs_json(
           R"({"a":)" + std::string(64, '[') + std::string(64, ']') + "}");
     }},
    {"tool_calls[0].name",
     [](R& r, S&) { AddMessage(r).add_tool_calls()->set_id("1"); }},
    {"arguments_json",
     [](R& r, S&) {
       v1::ToolCall& call = *AddMessage(r).add_tool_calls();
       call.set_name("f");
       call.set_arguments_json("not json");
     }},
};

class E2eMalformedTest : public ::testing::TestWithParam<Bad> {
 protected:
  // All tests share one pair of services; each leaves it idle.
  static System& system() {
    static System system(
        {.scheduler = {.admission = {.max_requests = 3, .max_tokens = 300},
                       .speculation = {},
                       .max_running = 1}});
    return system;
  }

  static void ExpectServes() {
    system().ExpectIdle();
    const Generation after =
        Generate(system().stub(), GreedyRequest(kPrompt, 2));
    EXPECT_TRUE(after.status.ok()) << after.status.error_message();
  }
};

TEST_P(E2eMalformedTest, IsRefusedNamingTheField) {
  v1::GenerateRequest request = GreedyRequest(kPrompt, 2);
  GetParam().spoil(request, *request.mutable_sampling_params());

  const Generation got = Generate(system().stub(), request);

  EXPECT_EQ(got.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(got.status.error_message().find(GetParam().field),
            std::string::npos)
      << got.status.error_message();
  EXPECT_LT(got.status.error_message().size(), 500);
  EXPECT_EQ(got.error.reason, "INVALID_ARGUMENT");
  EXPECT_EQ(got.error.violations.size(), 1u);
  EXPECT_TRUE(got.chunks.empty());
  ExpectServes();
}

INSTANTIATE_TEST_SUITE_P(Sampling, E2eMalformedTest,
                         ::testing::ValuesIn(kBadSampling));
INSTANTIATE_TEST_SUITE_P(Input, E2eMalformedTest,
                         ::testing::ValuesIn(kBadInput));
INSTANTIATE_TEST_SUITE_P(Chat, E2eMalformedTest, ::testing::ValuesIn(kBadChat));

class E2eRefusedTest : public E2eMalformedTest {};

TEST_F(E2eRefusedTest, AnotherModelIsNotFound) {
  v1::GenerateRequest request = GreedyRequest(kPrompt, 2);
  request.set_model("another");

  const Generation got = Generate(system().stub(), request);

  EXPECT_EQ(got.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_NE(got.status.error_message().find("another"), std::string::npos);
  ExpectServes();
}

TEST_F(E2eRefusedTest, AMessageThatIsTooLongEndsItsCallAlone) {
  const Generation got =
      Generate(system().stub(), GreedyRequest(std::string(5 << 20, 'a'), 2));

  EXPECT_EQ(got.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ExpectServes();
}

// Sends `bytes` as the message of a Generate call.
grpc::Status SendBytes(System& system, const std::string& bytes) {
  grpc::GenericStub stub(system.NewChannel());
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::Slice slice(bytes);
  const auto call =
      stub.PrepareUnaryCall(&context, "/bole.v1.BoleService/Generate",
                            grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  return status;
}

TEST_F(E2eRefusedTest, BytesThatAreNoMessageEndTheirCallAlone) {
  for (const std::string& bytes : {std::string("\xFF\xFF\xFF\xFF"),
                                   std::string("\x1A\x05"
                                               "ab"),
                                   // A text that is not UTF-8.
                                   std::string("\x1A\x02\xC3\x28")}) {
    SCOPED_TRACE(::testing::PrintToString(bytes));

    const grpc::Status status = SendBytes(system(), bytes);

    EXPECT_FALSE(status.ok());
    ExpectServes();
  }
}

TEST_F(E2eRefusedTest, AnUnknownMethodIsUnimplemented) {
  grpc::GenericStub stub(system().NewChannel());
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(
      &context, "/bole.v1.BoleService/Destroy", grpc::ByteBuffer(), &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));

  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(E2eRefusedTest, AFullQueueSaysWhenToComeAgain) {
  Call running(system().stub(), GreedyRequest(kPrompt, kForever));
  ASSERT_TRUE(system().WaitForLoad(1, 0));
  std::vector<std::unique_ptr<Call>> waiting;
  for (int i = 1; i <= 3; ++i) {
    waiting.push_back(
        std::make_unique<Call>(system().stub(), GreedyRequest(kPrompt, 2)));
    ASSERT_TRUE(system().WaitForLoad(1, i));
  }

  const Generation refused =
      Generate(system().stub(), GreedyRequest(kPrompt, 2));
  running.Cancel();

  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.error.reason, "QUEUE_REQUESTS");
  ASSERT_TRUE(refused.error.retry_after.has_value());
  EXPECT_GT(refused.error.retry_after->count(), 0);
  for (const auto& call : waiting) EXPECT_TRUE(call->Finish().status.ok());
  running.Finish();
  ExpectServes();
}

TEST_F(E2eRefusedTest, AQueueIsFullOfTokensToo) {
  Call running(system().stub(), GreedyRequest(kPrompt, kForever));
  ASSERT_TRUE(system().WaitForLoad(1, 0));
  v1::GenerateRequest large = GreedyRequest("", 2);
  large.mutable_token_ids()->mutable_ids()->Resize(200, 100);
  Call waiting(system().stub(), large);
  ASSERT_TRUE(system().WaitForLoad(1, 1));

  const Generation refused = Generate(system().stub(), large);
  running.Cancel();

  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.error.reason, "QUEUE_TOKENS");
  EXPECT_TRUE(refused.error.retry_after.has_value());
  EXPECT_TRUE(waiting.Finish().status.ok());
  running.Finish();
  ExpectServes();
}

}  // namespace
}  // namespace bole::e2e
