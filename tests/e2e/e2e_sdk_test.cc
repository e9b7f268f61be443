// The C++ SDK and its examples against both services: answers are whole, and
// are the same, though a worker or the scheduler went while they came.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "clients/sdk/client.h"
#include "clients/sdk/requests.h"
#include "gtest/gtest.h"
#include "tests/clients/cli/process.h"
#include "tests/e2e/system.h"

namespace bole::e2e {
namespace {

using testing_support::Process;
using testing_support::Streams;

constexpr char kPrompt[] = "def fibonacci(n):\n";

// Two texts that take long enough to be disturbed.
v1::GenerateRequest TwoLongTexts() {
  v1::GenerateRequest request = TextRequest(kPrompt);
  request.set_n(2);
  request.mutable_sampling_params()->set_seed(3);
  request.mutable_sampling_params()->set_max_tokens(400);
  request.mutable_sampling_params()->set_ignore_eos(true);
  return request;
}

// Text and ids of each choice.
struct Answer {
  std::vector<std::string> texts = std::vector<std::string>(2);
  std::vector<std::vector<uint32_t>> ids =
      std::vector<std::vector<uint32_t>>(2);

  void Add(const v1::GenerateResponse& response) {
    if (!response.has_chunk()) return;
    const v1::GenerateChunk& chunk = response.chunk();
    texts[chunk.index()] += chunk.text();
    ids[chunk.index()].insert(ids[chunk.index()].end(),
                              chunk.token_ids().begin(),
                              chunk.token_ids().end());
  }
  bool operator==(const Answer&) const = default;
};

class E2eSdkTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> NewClient() {
    auto client = Client::Create(
        {.address = Address(),
         .timeout = std::chrono::seconds(120),
         .retry = {.max_attempts = 100,
                   .max_resumes = 100,
                   .max_backoff = std::chrono::milliseconds(200)}});
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  std::string Address() {
    return absl::StrCat("127.0.0.1:", system_.scheduler().port());
  }

  // Reads an answer, and calls `disturb` after some of it.
  Answer Read(Client& client, const std::function<void()>& disturb,
              GenerationStats* stats = nullptr) {
    constexpr int kBefore = 5;
    const auto stream = client.Generate(TwoLongTexts());
    Answer answer;
    int num_responses = 0;
    for (const v1::GenerateResponse& response : *stream) {
      answer.Add(response);
      if (++num_responses == kBefore) disturb();
    }
    EXPECT_TRUE(stream->status().ok()) << stream->status();
    if (stats != nullptr) *stats = stream->stats();
    return answer;
  }

  // The same from gRPC's threads. The disturbance comes from this one.
  Answer ReadAsync(Client& client, const std::function<void()>& disturb) {
    Answer answer;
    std::promise<void> began;
    std::promise<absl::Status> done;
    bool first = true;
    client.GenerateAsync(
        TwoLongTexts(),
        {.on_event =
             [&](const v1::GenerateResponse& response) {
               answer.Add(response);
               if (std::exchange(first, false)) {
                 began.set_value();
               }
             },
         .on_done =
             [&](const absl::Status& status, const GenerationStats& /*stats*/) {
               done.set_value(status);
             }});
    began.get_future().wait();
    disturb();
    const absl::Status status = done.get_future().get();
    EXPECT_TRUE(status.ok()) << status;
    return answer;
  }

  // What an example prints.
  std::string Run(const std::string& example) {
    setenv("BOLE_SERVER", Address().c_str(), /*overwrite=*/1);
    Process process({absl::StrCat("clients/sdk/examples/", example)},
                    /*input=*/"", Streams::kPipes);
    EXPECT_EQ(process.Wait(), 0) << process.err();
    return process.out();
  }

  // The text of a greedy answer.
  std::string TextOf(v1::GenerateRequest request, int max_tokens) {
    request.mutable_sampling_params()->set_temperature(0);
    request.mutable_sampling_params()->set_max_tokens(max_tokens);
    const auto choices = ReadAll(*NewClient()->Generate(std::move(request)));
    EXPECT_TRUE(choices.ok()) << choices.status();
    return choices.ok() ? (*choices)[0].text : "";
  }

  System system_;
};

TEST_F(E2eSdkTest, AnAnswerIsTheSameThoughItsWorkerDies) {
  const auto client = NewClient();
  const Answer undisturbed = Read(*client, [] {});
  EXPECT_EQ(undisturbed.ids[0].size(), 400u);
  const auto disturb = [this] {
    system_.StopWorker();
    system_.StartWorker();
  };

  EXPECT_EQ(Read(*client, disturb), undisturbed);
  EXPECT_EQ(ReadAsync(*client, disturb), undisturbed);
  system_.ExpectIdle();
}

TEST_F(E2eSdkTest, AnAnswerIsTheSameThoughTheSchedulerIsStartedAnew) {
  const auto client = NewClient();
  const Answer undisturbed = Read(*client, [] {});
  const auto disturb = [this] {
    system_.StopScheduler();
    system_.StartScheduler();
  };
  GenerationStats stats;

  EXPECT_EQ(Read(*client, disturb, &stats), undisturbed);
  EXPECT_GT(stats.resumes, 0);
  EXPECT_EQ(ReadAsync(*client, disturb), undisturbed);
  system_.ExpectIdle();
}

TEST_F(E2eSdkTest, ExamplesPrintWhatTheServerAnswers) {
  EXPECT_TRUE(absl::StartsWith(
      Run("generate"),
      absl::StrCat(TextOf(TextRequest(kPrompt), 32), "\n-- 32 tokens, ")));

  const std::string question = "Write a python function to add two numbers.";
  v1::ChatInput chat;
  AddMessage("user", question, chat);
  EXPECT_TRUE(absl::StartsWith(
      Run("chat"),
      absl::StrCat("> ", question, "\n", TextOf(ChatRequest(chat), 48),
                   "\n> And to multiply?\n")));

  EXPECT_EQ(Run("generate_async"),
            absl::StrCat("--\n", TextOf(TextRequest("def add(a, b):\n"), 24),
                         "\n--\n", TextOf(TextRequest("import "), 24),
                         "\n-- CANCELLED\n"));

  const std::vector<std::string> lines =
      absl::StrSplit(Run("errors"), '\n', absl::SkipEmpty());
  const std::vector<std::string> starts = {
      "sampling_params.top_p is wrong: ", "not found: ", "out of time",
      "cancelled", "nothing answers"};
  ASSERT_EQ(lines.size(), starts.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_TRUE(absl::StartsWith(lines[i], starts[i])) << lines[i];
  }
  system_.ExpectIdle();
}

}  // namespace
}  // namespace bole::e2e
