#include "clients/bench/workload_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

namespace bole::bench {
namespace {

using testing::HasSubstr;

Workload Parse(const std::string& text) {
  absl::StatusOr<Workload> workload = ParseWorkload(text, "test");
  EXPECT_TRUE(workload.ok()) << workload.status();
  return workload.ok() ? *std::move(workload) : Workload();
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<Workload> workload = ParseWorkload(text, "test");
  EXPECT_EQ(workload.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(workload.status().message().data(),
                     workload.status().message().size());
}

const std::vector<Segment>& SegmentsOf(const Turn& turn) {
  return std::get<std::vector<Segment>>(turn.input);
}

const std::vector<Message>& MessagesOf(const Turn& turn) {
  return std::get<std::vector<Message>>(turn.input);
}

TEST(WorkloadReaderTest, BlocksOfMooncakeAreSegmentsWithTheRestInTheLast) {
  const Workload workload =
      Parse(R"({"timestamp": 500, "input_length": 1030, "output_length": 7, )"
            R"("hash_ids": [0, 9, 4]})"
            "\n"
            R"({"timestamp": 2000, "input_length": 512, "output_length": 1, )"
            R"("hash_ids": [0]})");

  ASSERT_EQ(workload.sessions.size(), 2u);
  const Session& first = workload.sessions[0];
  EXPECT_EQ(SegmentsOf(first.turns[0]),
            (std::vector<Segment>{{0, 512}, {9, 512}, {4, 6}}));
  EXPECT_EQ(first.turns[0].output_tokens, 7);
  EXPECT_EQ(first.start_seconds, 0);
  EXPECT_EQ(workload.sessions[1].start_seconds, 1.5);
}

TEST(WorkloadReaderTest, BlocksThatDoNotMakeUpThePromptAreAnError) {
  const std::string error =
      ErrorOf(R"({"timestamp": 0, "input_length": 513, "output_length": 7, )"
              R"("hash_ids": [0]})");

  EXPECT_THAT(error, HasSubstr("record 1 (mooncake)"));
  EXPECT_THAT(error, HasSubstr("2 blocks"));
}

TEST(WorkloadReaderTest, RowsOfAzureHaveTimesAndLengths) {
  const Workload workload = Parse(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-16 23:59:59.5000000,374,44\r\n"
      "2023-11-17 00:00:01.0000000,396,109\r\n");

  ASSERT_EQ(workload.sessions.size(), 2u);
  EXPECT_DOUBLE_EQ(*workload.sessions[1].start_seconds, 1.5);
  EXPECT_EQ(SegmentsOf(workload.sessions[1].turns[0])[0].length, 396);
  EXPECT_EQ(workload.sessions[1].turns[0].output_tokens, 109);
  EXPECT_NE(SegmentsOf(workload.sessions[0].turns[0])[0].seed,
            SegmentsOf(workload.sessions[1].turns[0])[0].seed);
}

TEST(WorkloadReaderTest, CallsOfOneAgentAreTurnsWhosePromptsGrowAsRecorded) {
  const Workload workload = Parse(
      R"({"session": "a", "turn": 0, "prompt_tokens": 2574, )"
      R"("new_tokens": 2574, "output_tokens": 130})"
      "\n"
      R"({"session": "a", "turn": 1, "prompt_tokens": 3516, )"
      R"("new_tokens": 811, "output_tokens": 85, )"
      R"("gap_after_prev_output_s": 0.62})"
      "\n"
      R"({"session": "b", "turn": 0, "prompt_tokens": 10, "new_tokens": 10, )"
      R"("output_tokens": 1})");

  ASSERT_EQ(workload.sessions.size(), 2u);
  const std::vector<Turn>& turns = workload.sessions[0].turns;
  ASSERT_EQ(turns.size(), 2u);
  EXPECT_EQ(turns[1].think_seconds, 0.62);
  const int prompt = SegmentsOf(turns[0])[0].length + *turns[0].output_tokens +
                     SegmentsOf(turns[1])[0].length;
  EXPECT_EQ(prompt, 3516);
  EXPECT_FALSE(HasArrivals(workload));
  EXPECT_TRUE(HasOutputLengths(workload));
}

TEST(WorkloadReaderTest, AnswersOfAConversationEndItsTurns) {
  const Workload workload = Parse(
      R"({"id": "x", "messages": [)"
      R"({"role": "system", "content": "s"},)"
      R"({"role": "user", "content": "u", "ts": "2025-04-30T16:32:54"},)"
      R"({"role": "assistant", "content": "a", "ts": "2025-04-30T16:32:57",)"
      R"( "usage": {"completion_tokens": 128}},)"
      R"({"role": "tool", "content": "t", "ts": "2025-04-30T16:32:59.5"},)"
      R"({"role": "assistant", "content": "b", "ts": "2025-04-30T16:33:04"},)"
      R"({"role": "user", "content": "never answered"}]})");

  ASSERT_EQ(workload.sessions.size(), 1u);
  const std::vector<Turn>& turns = workload.sessions[0].turns;
  ASSERT_EQ(turns.size(), 2u);
  EXPECT_EQ(MessagesOf(turns[0]),
            (std::vector<Message>{{"system", "s"}, {"user", "u"}}));
  EXPECT_EQ(turns[0].recorded_answer, "a");
  EXPECT_EQ(turns[0].output_tokens, 128);
  EXPECT_EQ(turns[0].think_seconds, std::nullopt);
  EXPECT_EQ(MessagesOf(turns[1]), (std::vector<Message>{{"tool", "t"}}));
  EXPECT_EQ(turns[1].think_seconds, 2.5);
}

TEST(WorkloadReaderTest, PromptSetsAreSessionsOfTheirQuestions) {
  EXPECT_EQ(Parse(R"({"question_id": 1, "turns": ["a", "b"]})")
                .sessions[0]
                .turns.size(),
            2u);
  EXPECT_EQ(MessagesOf(Parse(R"([{"id": "i", "conversations": [
                {"from": "human", "value": "who?"},
                {"from": "gpt", "value": "me"}]}])")
                           .sessions[0]
                           .turns[0]),
            (std::vector<Message>{{"user", "who?"}}));
  EXPECT_EQ(MessagesOf(Parse(R"({"task_id": 1, "text": "Add.", )"
                             R"("test_list": ["assert 1", "assert 2"]})")
                           .sessions[0]
                           .turns[0])[0]
                .content,
            "Add.\nYour code should pass these tests:\nassert 1\nassert 2");
  EXPECT_EQ(Parse(R"({"task_id": "H/0", "prompt": "def f():"})").format,
            "prompts");
  EXPECT_EQ(Parse(R"({"question": "How many?", "answer": "3"})").format,
            "question");
}

TEST(WorkloadReaderTest, ErrorsNameTheRecordAndTheField) {
  EXPECT_THAT(ErrorOf(R"({"choices": []})"), HasSubstr("fields choices"));
  EXPECT_THAT(ErrorOf("{\"prompt\": \"a\"}\n{\"prompt\": 3}"),
              HasSubstr("record 2 (prompts): prompt is 3"));
  EXPECT_THAT(ErrorOf("{\"prompt\": \"a\"}\n{\"prompt\": "),
              HasSubstr("line 2"));
  EXPECT_THAT(ErrorOf(R"({"session": "a", "turn": 0, "new_tokens": -1, )"
                      R"("output_tokens": 1})"),
              HasSubstr("new_tokens is -1"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("no records"));
}

TEST(WorkloadReaderTest, CompressedFilesAreRefusedWithTheWayOut) {
  const std::string path = testing::TempDir() + "/compressed.zst";
  std::ofstream(path, std::ios::binary) << "\x28\xb5\x2f\xfd...";

  const absl::StatusOr<Workload> workload = ReadWorkload(path);

  EXPECT_THAT(workload.status().ToString(), HasSubstr("zstd -dc"));
  EXPECT_EQ(ReadWorkload(testing::TempDir() + "/none").status().code(),
            absl::StatusCode::kNotFound);
}

struct DataFile {
  const char* path;
  size_t sessions;
  size_t turns;
};

class DataFileTest : public testing::TestWithParam<DataFile> {};

TEST_P(DataFileTest, HasAllOfItsRequests) {
  const char* directory = std::getenv("BOLE_DATA_DIR");  // NOLINT
  if (directory == nullptr) GTEST_SKIP() << "BOLE_DATA_DIR is not set";

  const absl::StatusOr<Workload> workload =
      ReadWorkload(std::string(directory) + "/" + GetParam().path);

  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_EQ(workload->sessions.size(), GetParam().sessions);
  size_t turns = 0;
  for (const Session& session : workload->sessions) {
    turns += session.turns.size();
  }
  EXPECT_EQ(turns, GetParam().turns);
}

INSTANTIATE_TEST_SUITE_P(
    Files, DataFileTest,
    testing::Values(
        DataFile{"agent/agent_trace.jsonl", 75, 977},
        DataFile{"traces/mooncake_conversation_trace.jsonl", 12031, 12031},
        DataFile{"traces/mooncake_synthetic_trace.jsonl", 3993, 3993},
        DataFile{"traces/AzureLLMInferenceTrace_code.csv", 8819, 8819},
        DataFile{"traces/AzureLLMInferenceTrace_conv.csv", 19366, 19366},
        DataFile{"prompts/specbench_question.jsonl", 480, 560},
        DataFile{"prompts/mtbench_question.jsonl", 80, 160},
        DataFile{"prompts/vicuna_bench_question.jsonl", 80, 80},
        DataFile{"mbpp/mbpp.jsonl", 974, 974},
        DataFile{"mbpp/sanitized-mbpp.json", 427, 427},
        DataFile{"gsm8k/test.jsonl", 1319, 1319}));

}  // namespace
}  // namespace bole::bench
