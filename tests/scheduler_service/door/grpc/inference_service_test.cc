#include "scheduler_service/door/grpc/inference_service.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "clients/sdk/call_error.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/scheduler_service/simulated_worker.h"
#include "tests/scheduler_service/tiny_system.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::OpenCall;
using testing::SimulatedOutput;
using testing::TinySystem;

const std::vector<int32_t>& Prompt() {
  static const auto& prompt = *new std::vector<int32_t>{'q', 'r', 's'};
  return prompt;
}

v1::GenerateRequest Ask(int max_tokens) {
  v1::GenerateRequest request;
  request.set_request_id("mine");
  request.mutable_token_ids()->mutable_ids()->Add(Prompt().begin(),
                                                  Prompt().end());
  request.mutable_sampling_params()->set_max_tokens(max_tokens);
  return request;
}

std::string TextOf(const std::vector<int32_t>& letters) {
  return std::string(letters.begin(), letters.end());
}

TEST(InferenceServiceTest, ChunksThenTheCompleteMessage) {
  TinySystem system;
  const std::vector<int32_t> want = SimulatedOutput(Prompt(), 40);

  OpenCall call(system, Ask(40));
  const grpc::Status status = call.Finish();

  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(call.request_id, "mine");
  EXPECT_GE(call.num_chunks, 1);
  EXPECT_EQ(call.num_complete, 1);
  EXPECT_EQ(call.ids, want);
  EXPECT_EQ(call.text, TextOf(want));
  EXPECT_EQ(call.usage.completion_tokens(), 40u);
  EXPECT_EQ(call.model, "tiny");
  EXPECT_EQ(call.complete.output_ids_size(), 0);
  EXPECT_EQ(call.complete.text(), "");
  EXPECT_EQ(call.complete.finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(call.complete.usage().prompt_tokens(), 3u);
}

TEST(InferenceServiceTest, WithoutStreamingOnlyTheCompleteMessage) {
  TinySystem system;
  v1::GenerateRequest request = Ask(30);
  request.set_stream(false);

  OpenCall call(system, request);

  ASSERT_TRUE(call.Finish().ok());
  EXPECT_EQ(call.num_chunks, 0);
  EXPECT_EQ(call.num_complete, 1);
  EXPECT_EQ(call.model, "tiny");
  EXPECT_EQ(call.complete.text(), TextOf(SimulatedOutput(Prompt(), 30)));
  EXPECT_EQ(call.complete.output_ids_size(), 30);
}

TEST(InferenceServiceTest, ManyCallsAtOnceGetEachTheirOwn) {
  TinySystem system;
  std::vector<std::unique_ptr<OpenCall>> calls;
  calls.reserve(20);
  for (int i = 0; i < 20; ++i) {
    calls.push_back(std::make_unique<OpenCall>(system, Ask(i + 1)));
  }

  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(calls[i]->Finish().ok());
    EXPECT_EQ(calls[i]->ids, SimulatedOutput(Prompt(), i + 1));
  }

  EXPECT_TRUE(system.AwaitLoad(0, 0));
}

TEST(InferenceServiceTest, ACancelledCallGivesEverythingBack) {
  TinySystem system;
  system.worker.Hold();
  OpenCall call(system, Ask(400));
  ASSERT_TRUE(system.AwaitLoad(1, 0));

  call.Cancel();

  EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::CANCELLED);
  // Although the worker has not answered.
  EXPECT_TRUE(system.AwaitLoad(0, 0));
}

TEST(InferenceServiceTest, ACallEndsAtItsDeadlineAndGivesEverythingBack) {
  TinySystem system;
  system.worker.Hold();

  const auto start = steady_clock::now();
  OpenCall call(system, Ask(400), milliseconds(200));
  const grpc::Status status = call.Finish();

  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_GE(steady_clock::now() - start, milliseconds(190));
  EXPECT_TRUE(system.AwaitLoad(0, 0));
}

// Read on the thread for long messages: it has a field of a later version.
v1::GenerateRequest AskAtLength(int max_tokens) {
  v1::GenerateRequest request = Ask(max_tokens);
  request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(
      1000, std::string(100'000, 'x'));
  return request;
}

TEST(InferenceServiceTest, LongMessagesAreAnsweredLikeShortOnes) {
  TinySystem system;
  v1::GenerateRequest too_long;
  too_long.set_text(std::string(100'000, 'x'));

  OpenCall call(system, AskAtLength(20));
  OpenCall refused(system, too_long);

  ASSERT_TRUE(call.Finish().ok());
  EXPECT_EQ(call.ids, SimulatedOutput(Prompt(), 20));
  EXPECT_EQ(refused.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(InferenceServiceTest, LongMessagesCancelledAtAnyTimeLeaveNothingBehind) {
  TinySystem system;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<OpenCall>> calls;
    calls.reserve(10);
    for (int i = 0; i < 10; ++i) {
      calls.push_back(std::make_unique<OpenCall>(system, AskAtLength(100)));
    }

    for (auto& call : calls) call->Cancel();

    for (auto& call : calls) call->Finish();
  }

  EXPECT_TRUE(system.AwaitLoad(0, 0));
  EXPECT_TRUE(OpenCall(system, Ask(1)).Finish().ok());
}

TEST(InferenceServiceTest, LongTokenizeCallsTakeNoPlaceOfALongGenerate) {
  SchedulerServerOptions options;
  options.door.max_long_messages = 1;
  TinySystem system(options);
  v1::TokenizeRequest text;
  text.set_text(std::string(64 << 10, 'x'));
  std::atomic<bool> stop = false;
  std::atomic<int> num_refused = 0;
  std::vector<std::thread> threads;
  threads.reserve(6);
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        grpc::ClientContext context;
        v1::TokenizeResponse ids;
        if (!system.stub->Tokenize(&context, text, &ids).ok()) ++num_refused;
      }
    });
  }
  EXPECT_TRUE(testing::Eventually([&] { return num_refused > 0; }));

  // The queue of Tokenize is full, or nearly so, all the while.
  for (int i = 0; i < 20; ++i) {
    const grpc::Status status = OpenCall(system, AskAtLength(1)).Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(InferenceServiceTest, TokenizesAndBack) {
  TinySystem system;
  grpc::ClientContext first;
  v1::TokenizeRequest text;
  text.set_text("abc");
  v1::TokenizeResponse ids;
  ASSERT_TRUE(system.stub->Tokenize(&first, text, &ids).ok());
  grpc::ClientContext second;
  v1::DetokenizeRequest back;
  *back.mutable_ids() = ids.input_ids();
  v1::DetokenizeResponse again;

  ASSERT_TRUE(system.stub->Detokenize(&second, back, &again).ok());

  EXPECT_EQ(again.text(), "abc");
  grpc::ClientContext long_context;
  text.set_text(std::string(100'000, 'x'));
  ASSERT_TRUE(system.stub->Tokenize(&long_context, text, &ids).ok());
  EXPECT_EQ(ids.input_ids_size(), 100'000);
  grpc::ClientContext third;
  const grpc::Status empty =
      system.stub->Tokenize(&third, v1::TokenizeRequest(), &ids);
  EXPECT_EQ(empty.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReadError(empty).violations.at(0).field, "input");
}

TEST(InferenceServiceTest, ModelInfoIsTheWorkersAndTheTokenizers) {
  TinySystem system;
  grpc::ClientContext context;
  v1::GetModelInfoResponse info;

  ASSERT_TRUE(
      system.stub->GetModelInfo(&context, v1::GetModelInfoRequest(), &info)
          .ok());

  EXPECT_EQ(info.model(), "tiny");
  EXPECT_EQ(info.max_context(), 512u);
  EXPECT_EQ(info.vocab_size(), 256u);
  ASSERT_EQ(info.eos_token_ids_size(), 1);
  EXPECT_EQ(info.eos_token_ids(0), 1u);
  EXPECT_EQ(info.default_sampling_params().top_k(), 20);
  EXPECT_TRUE(info.has_drafter());
  EXPECT_TRUE(info.has_chat_template());
  EXPECT_TRUE(info.ready());
}

TEST(InferenceServiceTest, EveryModelIsListedWithAndWithoutAWorker) {
  ScopedDirectory directory;
  directory.Write("tokenizer.json", testing::TinyTokenizerJson());
  SchedulerServerOptions options;
  options.models = {"other=" + directory.path()};
  TinySystem system(options);
  grpc::ClientContext context;
  v1::ListModelsResponse response;

  ASSERT_TRUE(
      system.stub->ListModels(&context, v1::ListModelsRequest(), &response)
          .ok());

  ASSERT_EQ(response.models_size(), 2);
  EXPECT_EQ(response.models(0).model(), "other");
  EXPECT_FALSE(response.models(0).ready());
  EXPECT_FALSE(response.models(0).has_chat_template());
  EXPECT_EQ(response.models(0).max_context(), 0u);
  EXPECT_EQ(response.models(1).model(), "tiny");
  EXPECT_TRUE(response.models(1).ready());
  EXPECT_EQ(response.models(1).max_context(), 512u);
}

TEST(InferenceServiceTest, AModelWithoutAWorkerHasNoInfoYet) {
  TinySystem system({}, /*with_worker=*/false);
  grpc::ClientContext context;
  v1::GetModelInfoResponse info;

  const grpc::Status status =
      system.stub->GetModelInfo(&context, v1::GetModelInfoRequest(), &info);

  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReadError(status).reason, "NO_WORKER");
}

TEST(InferenceServiceTest, ServerInfoIsThereWithAndWithoutAWorker) {
  SchedulerServerOptions options;
  options.scheduler.policy = PolicyKind::kFixed;
  options.scheduler.speculation = {.mode = SpeculationMode::kChain,
                                   .shape = {.top_k = 4, .depth = 3},
                                   .nodes = 30};
  TinySystem with(options);
  TinySystem without({}, /*with_worker=*/false);
  grpc::ClientContext contexts[2];
  v1::GetServerInfoResponse info[2];
  const v1::GetServerInfoRequest request;

  ASSERT_TRUE(with.stub->GetServerInfo(&contexts[0], request, &info[0]).ok());
  ASSERT_TRUE(
      without.stub->GetServerInfo(&contexts[1], request, &info[1]).ok());

  EXPECT_NE(info[0].version(), "");
  EXPECT_FALSE(info[0].draining());
  EXPECT_EQ(info[0].speculation().mode(), v1::SPECULATION_MODE_CHAIN);
  EXPECT_EQ(info[0].speculation().top_k(), 1u);
  EXPECT_EQ(info[0].speculation().nodes(), 4u);
  EXPECT_EQ(info[0].speculation().policy(), v1::BUDGET_POLICY_FIXED);
  EXPECT_EQ(info[1].speculation().mode(), v1::SPECULATION_MODE_TREE);
  EXPECT_EQ(info[1].speculation().policy(), v1::BUDGET_POLICY_GOODPUT);
}

}  // namespace
}  // namespace bole
