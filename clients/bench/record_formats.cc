#include "clients/bench/record_formats.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/bench/records.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace bole::bench {
namespace {

using nlohmann::json;

Turn UserTurn(std::string content) {
  Turn turn;
  turn.input = std::vector<Message>{{"user", std::move(content)}};
  return turn;
}

Session OneTurn(Turn turn) {
  Session session;
  session.turns.push_back(std::move(turn));
  return session;
}

// Mooncake: ids of blocks of 512 tokens, equal where prompts are.
absl::StatusOr<Session> DecodeMooncake(const json& record) {
  constexpr int kBlockTokens = 512;
  BOLE_ASSIGN_OR_RETURN(const int input, CountField(record, "input_length"));
  BOLE_ASSIGN_OR_RETURN(const int output, CountField(record, "output_length"));
  BOLE_ASSIGN_OR_RETURN(const double time, NumberField(record, "timestamp"));
  const json& ids = record["hash_ids"];
  const int num_blocks = (input + kBlockTokens - 1) / kBlockTokens;
  if (!ids.is_array() || static_cast<int>(ids.size()) != num_blocks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "hash_ids should have an id for each of the ", num_blocks,
        " blocks of 512 tokens that input_length ", input, " makes"));
  }
  std::vector<Segment> segments;
  for (const json& id : ids) {
    if (!id.is_number_unsigned()) {
      return absl::InvalidArgumentError("hash_ids has what is no block's id");
    }
    const int done = kBlockTokens * static_cast<int>(segments.size());
    segments.push_back({.seed = id.get<uint64_t>(),
                        .length = std::min(kBlockTokens, input - done)});
  }
  Turn turn;
  turn.input = std::move(segments);
  turn.output_tokens = std::max(output, 1);
  Session session = OneTurn(std::move(turn));
  session.start_seconds = time / 1000;
  return session;
}

// Azure: lengths alone, so no two prompts have anything in common.
absl::StatusOr<Session> DecodeAzure(const json& record) {
  BOLE_ASSIGN_OR_RETURN(const int input, CountField(record, "ContextTokens"));
  BOLE_ASSIGN_OR_RETURN(const int output,
                        CountField(record, "GeneratedTokens"));
  BOLE_ASSIGN_OR_RETURN(const std::string text, TextField(record, "TIMESTAMP"));
  const std::optional<double> time = ParseTimestamp(text);
  if (!time) {
    return absl::InvalidArgumentError(
        absl::StrCat("TIMESTAMP is \"", text, "\", which is no time"));
  }
  Turn turn;
  turn.input =
      std::vector<Segment>{{.seed = std::hash<std::string>()(record.dump()),
                            .length = std::max(input, 1)}};
  turn.output_tokens = std::max(output, 1);
  Session session = OneTurn(std::move(turn));
  session.start_seconds = time;
  return session;
}

// agent_trace: lengths of the calls of one session, each prompt the one before
// with its answer and new tokens behind it.
absl::StatusOr<Session> DecodeAgentTrace(const json& record) {
  BOLE_ASSIGN_OR_RETURN(std::string name, TextField(record, "session"));
  BOLE_ASSIGN_OR_RETURN(const int turn_number, CountField(record, "turn"));
  BOLE_ASSIGN_OR_RETURN(const int added, CountField(record, "new_tokens"));
  BOLE_ASSIGN_OR_RETURN(const int output, CountField(record, "output_tokens"));
  Turn turn;
  // The file counts the token that ends an answer's turn as cached; it is in
  // the next prompt alone.
  const int end_of_turn = turn_number == 0 ? 0 : 1;
  turn.input = std::vector<Segment>{
      {.seed = std::hash<std::string>()(absl::StrCat(name, "#", turn_number)),
       .length = added + end_of_turn}};
  turn.output_tokens = std::max(output, 1);
  if (record.contains("gap_after_prev_output_s")) {
    BOLE_ASSIGN_OR_RETURN(turn.think_seconds,
                          NumberField(record, "gap_after_prev_output_s"));
  }
  Session session = OneTurn(std::move(turn));
  session.name = std::move(name);
  return session;
}

// Appends a message of a recorded conversation to `session`: an answer ends
// the turn that `input` has gathered.
void AddRecorded(Message message, const json& record,
                 std::vector<Message>& input, Session& session) {
  if (message.role != "assistant" || input.empty()) {
    input.push_back(std::move(message));
    return;
  }
  Turn turn;
  turn.input = std::exchange(input, {});
  turn.recorded_answer = std::move(message.content);
  if (record.contains("usage") && record["usage"].is_object()) {
    const absl::StatusOr<int> tokens =
        CountField(record["usage"], "completion_tokens");
    if (tokens.ok()) turn.output_tokens = std::max(*tokens, 1);
  }
  session.turns.push_back(std::move(turn));
}

std::optional<double> TimeOf(const json& message) {
  const auto found = message.find("ts");
  if (found == message.end() || !found->is_string()) return std::nullopt;
  return ParseTimestamp(found->get<std::string>());
}

// Whole conversations; the time between an answer and the last message before
// the next one is what the tools or the user took.
absl::StatusOr<Session> DecodeMessages(const json& record) {
  Session session;
  std::vector<Message> input;
  std::optional<double> answered;
  std::optional<double> asked;
  for (const json& message : record["messages"]) {
    BOLE_ASSIGN_OR_RETURN(std::string role, TextField(message, "role"));
    BOLE_ASSIGN_OR_RETURN(std::string content, TextField(message, "content"));
    const size_t num_turns = session.turns.size();
    AddRecorded({std::move(role), std::move(content)}, message, input, session);
    const std::optional<double> time = TimeOf(message);
    if (session.turns.size() == num_turns) {
      asked = time;
      continue;
    }
    if (num_turns > 0 && answered && asked) {
      session.turns.back().think_seconds = std::max(*asked - *answered, 0.0);
    }
    answered = time;
  }
  return session;
}

absl::StatusOr<Session> DecodeShareGpt(const json& record) {
  Session session;
  std::vector<Message> input;
  for (const json& message : record["conversations"]) {
    BOLE_ASSIGN_OR_RETURN(const std::string from, TextField(message, "from"));
    BOLE_ASSIGN_OR_RETURN(std::string content, TextField(message, "value"));
    const bool answer = from == "gpt" || from == "assistant";
    const bool system = from == "system";
    AddRecorded({answer ? "assistant" : (system ? "system" : "user"),
                 std::move(content)},
                message, input, session);
  }
  return session;
}

// MT-bench, Vicuna bench and Spec-Bench.
absl::StatusOr<Session> DecodeQuestions(const json& record) {
  BOLE_ASSIGN_OR_RETURN(const std::vector<std::string> questions,
                        TextListField(record, "turns"));
  Session session;
  for (const std::string& question : questions) {
    session.turns.push_back(UserTurn(question));
  }
  return session;
}

absl::StatusOr<Session> DecodeMbpp(const json& record) {
  const char* field = record.contains("text") ? "text" : "prompt";
  BOLE_ASSIGN_OR_RETURN(const std::string task, TextField(record, field));
  BOLE_ASSIGN_OR_RETURN(const std::vector<std::string> tests,
                        TextListField(record, "test_list"));
  return OneTurn(
      UserTurn(absl::StrCat(task, "\nYour code should pass these tests:\n",
                            absl::StrJoin(tests, "\n"))));
}

absl::StatusOr<Session> DecodePrompt(const json& record) {
  BOLE_ASSIGN_OR_RETURN(std::string prompt, TextField(record, "prompt"));
  return OneTurn(UserTurn(std::move(prompt)));
}

absl::StatusOr<Session> DecodeQuestion(const json& record) {
  BOLE_ASSIGN_OR_RETURN(std::string question, TextField(record, "question"));
  return OneTurn(UserTurn(std::move(question)));
}

}  // namespace

std::span<const RecordFormat> RecordFormats() {
  static const std::vector<RecordFormat>& formats =
      *new std::vector<RecordFormat>{
          {"mooncake", {"input_length", "hash_ids"}, DecodeMooncake},
          {"azure", {"TIMESTAMP", "ContextTokens"}, DecodeAzure},
          {"agent trace",
           {"session", "turn", "new_tokens"},
           DecodeAgentTrace,
           /*turns_in_succession=*/true},
          {"messages", {"messages"}, DecodeMessages},
          {"sharegpt", {"conversations"}, DecodeShareGpt},
          {"questions", {"turns"}, DecodeQuestions},
          {"mbpp", {"task_id", "test_list"}, DecodeMbpp},
          {"prompts", {"prompt"}, DecodePrompt},
          {"question", {"question"}, DecodeQuestion},
      };
  return formats;
}

}  // namespace bole::bench
