// Several texts of one prompt, from the message to the messages that answer.
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/scheduler_service/tiny_system.h"

namespace bole {
namespace {

using testing::OpenCall;
using testing::TinySystem;

// With a seed, drawn at random.
v1::GenerateRequest Ask(int max_tokens, uint32_t n, uint64_t seed = 7) {
  v1::GenerateRequest request;
  request.set_text("xyz");
  request.set_n(n);
  request.mutable_sampling_params()->set_temperature(1);
  request.mutable_sampling_params()->set_seed(seed);
  request.mutable_sampling_params()->set_max_tokens(max_tokens);
  return request;
}

// What came of a choice, in chunks or with its end.
struct Text {
  std::vector<uint32_t> ids;
  std::string text;

  friend bool operator==(const Text&, const Text&) = default;
};

std::map<uint32_t, Text> TextsOf(const OpenCall& call) {
  std::map<uint32_t, Text> texts;
  for (const auto& [index, chunks] : call.chunks) {
    Text& text = texts[index];
    for (const v1::GenerateChunk& chunk : chunks) {
      text.ids.insert(text.ids.end(), chunk.token_ids().begin(),
                      chunk.token_ids().end());
      text.text += chunk.text();
    }
  }
  for (const auto& [index, complete] : call.completes) {
    Text& text = texts[index];
    text.ids.insert(text.ids.end(), complete.output_ids().begin(),
                    complete.output_ids().end());
    text.text += complete.text();
  }
  return texts;
}

// By the number of the choice.
std::map<uint32_t, Text> Texts(TinySystem& system,
                               const v1::GenerateRequest& request) {
  OpenCall call(system, request);
  const grpc::Status status = call.Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return TextsOf(call);
}

TEST(ChoicesTest, AreTheTextsOfSingleRequestsWithTheNextSeeds) {
  TinySystem system;
  std::map<uint32_t, Text> singles;
  for (uint32_t i = 0; i < 6; ++i) {
    singles[i] = Texts(system, Ask(30, 1, 7 + i)).at(0);
  }
  EXPECT_NE(singles[0], singles[1]);
  for (const bool stream : {true, false}) {
    SCOPED_TRACE(stream);
    v1::GenerateRequest request = Ask(30, 6);
    request.set_stream(stream);
    OpenCall call(system, request);

    ASSERT_TRUE(call.Finish().ok());

    EXPECT_EQ(TextsOf(call), singles);
    EXPECT_EQ(call.num_complete, 6);
    EXPECT_EQ(call.chunks.size(), stream ? 6u : 0u);
    for (uint32_t i = 0; i < 6; ++i) {
      EXPECT_EQ(call.completes[i].index(), i);
      EXPECT_EQ(call.completes[i].seed(), 7u + i);
      EXPECT_EQ(call.completes[i].usage().prompt_tokens(), 3u);
      EXPECT_EQ(call.completes[i].usage().completion_tokens(), 30u);
    }
  }
  EXPECT_TRUE(system.AwaitLoad(0, 0));
}

TEST(ChoicesTest, ASeedThatIsDrawnIsDrawnOnce) {
  TinySystem system;
  v1::GenerateRequest request = Ask(5, 3);
  request.mutable_sampling_params()->clear_seed();
  OpenCall call(system, request);

  ASSERT_TRUE(call.Finish().ok());

  const uint64_t seed = call.completes[0].seed();
  EXPECT_EQ(call.completes[1].seed(), seed + 1);
  EXPECT_EQ(call.completes[2].seed(), seed + 2);
  EXPECT_EQ(Texts(system, Ask(5, 3, seed)), TextsOf(call));
}

TEST(ChoicesTest, EachGoesOnFromEveryPosition) {
  constexpr size_t kTokens = 14;
  TinySystem system;
  const std::map<uint32_t, Text> whole = Texts(system, Ask(kTokens, 2));
  for (size_t had = 0; had < kTokens; ++had) {
    SCOPED_TRACE(had);
    const size_t counts[] = {had, kTokens - 1 - had};
    v1::GenerateRequest request = Ask(kTokens, 2);
    for (uint32_t i = 0; i < 2; ++i) {
      request.add_resume()->mutable_output_ids()->Assign(
          whole.at(i).ids.begin(), whole.at(i).ids.begin() + counts[i]);
    }

    const std::map<uint32_t, Text> rest = Texts(system, request);

    for (uint32_t i = 0; i < 2; ++i) {
      // A token is a letter.
      EXPECT_EQ(rest.at(i).text, whole.at(i).text.substr(counts[i]));
      EXPECT_EQ(rest.at(i).ids.size(), kTokens - counts[i]);
    }
  }
}

TEST(ChoicesTest, OfThoseThatAreCompleteNothingComes) {
  TinySystem system;
  const std::map<uint32_t, Text> whole = Texts(system, Ask(10, 3));
  v1::GenerateRequest request = Ask(10, 3);
  request.set_echo(true);
  request.add_resume()->set_complete(true);
  request.add_resume();
  request.add_resume()->set_complete(true);
  OpenCall call(system, request);

  ASSERT_TRUE(call.Finish().ok());
  for (v1::ResumedChoice& had : *request.mutable_resume()) {
    had.set_complete(true);
  }
  const grpc::Status nothing_to_do = OpenCall(system, request).Finish();

  EXPECT_EQ(TextsOf(call), (std::map<uint32_t, Text>{{1, whole.at(1)}}));
  EXPECT_EQ(call.chunks[1][0].prompt().text(), "xyz");
  EXPECT_EQ(nothing_to_do.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(ChoicesTest, TheFirstTellsThePromptOnce) {
  TinySystem system;
  v1::GenerateRequest request = Ask(10, 2);
  request.set_echo(true);
  OpenCall streamed(system, request);
  request.set_stream(false);
  OpenCall whole(system, request);

  ASSERT_TRUE(streamed.Finish().ok());
  ASSERT_TRUE(whole.Finish().ok());

  for (uint32_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < streamed.chunks[i].size(); ++j) {
      EXPECT_EQ(streamed.chunks[i][j].has_prompt(), i == 0 && j == 0);
    }
    EXPECT_FALSE(streamed.completes[i].has_prompt());
    EXPECT_EQ(whole.completes[i].has_prompt(), i == 0);
  }
  for (const v1::PromptOutput& prompt :
       {streamed.chunks[0][0].prompt(), whole.completes[0].prompt()}) {
    EXPECT_EQ(prompt.text(), "xyz");
    EXPECT_EQ(std::vector<int32_t>(prompt.token_ids().begin(),
                                   prompt.token_ids().end()),
              (std::vector<int32_t>{'x', 'y', 'z'}));
  }
}

TEST(ChoicesTest, CancellingTheCallFreesAll) {
  TinySystem system;
  system.worker.Hold();
  OpenCall call(system, Ask(400, 6));
  ASSERT_TRUE(system.AwaitLoad(4, 2));

  call.Cancel();

  EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(system.AwaitLoad(0, 0));
}

TEST(ChoicesTest, CancellingInTheMiddleOfTextsFreesAll) {
  TinySystem system;
  for (int answers = 1; answers < 8; ++answers) {
    SCOPED_TRACE(answers);
    system.worker.Hold();
    OpenCall call(system, Ask(400, 6));
    ASSERT_TRUE(system.AwaitLoad(4, 2));
    for (int i = 0; i < answers; ++i) system.worker.AnswerOne();

    call.Cancel();
    system.worker.Release();

    EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(system.AwaitLoad(0, 0));
  }
}

TEST(ChoicesTest, TheDeadlineEndsAll) {
  TinySystem system;
  system.worker.Hold();
  OpenCall call(system, Ask(400, 6), std::chrono::milliseconds(200));

  EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(system.AwaitLoad(0, 0));
}

TEST(ChoicesTest, AreAdmittedAllOrNone) {
  SchedulerServerOptions options;
  options.scheduler.admission.max_requests = 3;
  options.scheduler.max_running = 1;
  TinySystem system(options);
  system.worker.Hold();
  OpenCall running(system, Ask(5, 1));
  ASSERT_TRUE(system.AwaitLoad(1, 0));
  OpenCall waiting(system, Ask(5, 1));
  ASSERT_TRUE(system.AwaitLoad(1, 1));

  const grpc::Status refused = OpenCall(system, Ask(5, 3)).Finish();
  OpenCall fits(system, Ask(5, 2));
  EXPECT_TRUE(system.AwaitLoad(1, 3));

  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  system.worker.Release();
  EXPECT_TRUE(running.Finish().ok());
  EXPECT_TRUE(waiting.Finish().ok());
  EXPECT_TRUE(fits.Finish().ok());
  EXPECT_EQ(fits.num_complete, 2);
}

}  // namespace
}  // namespace bole
