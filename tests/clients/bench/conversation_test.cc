#include "clients/bench/conversation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace bole::bench {
namespace {

Turn Says(const std::string& content) {
  Turn turn;
  turn.input = std::vector<Message>{{"user", content}};
  turn.recorded_answer = "recorded";
  return turn;
}

Turn Adds(int length, int output) {
  Turn turn;
  turn.input = std::vector<Segment>{{.seed = 3, .length = length}};
  turn.output_tokens = output;
  return turn;
}

TEST(ConversationTest, TheModelsOwnAnswerIsHistory) {
  const ConversationOptions options;
  Conversation conversation(options);
  conversation.Extend(Says("one"));
  conversation.Answer(Says("one"), "own", {});
  conversation.Extend(Says("two"));

  const v1::ChatInput chat = conversation.Request(Says("two")).chat();

  ASSERT_EQ(chat.messages_size(), 3);
  EXPECT_EQ(chat.messages(0).content(), "one");
  EXPECT_EQ(chat.messages(1).role(), "assistant");
  EXPECT_EQ(chat.messages(1).content(), "own");
  EXPECT_EQ(chat.messages(2).content(), "two");
}

TEST(ConversationTest, OrTheAnswerOfTheFile) {
  ConversationOptions options;
  options.history = History::kRecorded;
  Conversation conversation(options);
  conversation.Extend(Says("one"));

  conversation.Answer(Says("one"), "own", {});

  EXPECT_EQ(conversation.Request(Says("one")).chat().messages(1).content(),
            "recorded");
}

TEST(ConversationTest, WithoutATemplateMessagesAreParagraphs) {
  ConversationOptions options;
  options.chat = false;
  Conversation conversation(options);
  conversation.Extend(Says("one"));
  conversation.Answer(Says("one"), "own", {});
  conversation.Extend(Says("two"));

  EXPECT_EQ(conversation.Request(Says("two")).text(), "one\n\nown\n\ntwo");
}

TEST(ConversationTest, PromptsOfIdsGrowByTheAnswerAndTheInput) {
  ConversationOptions options;
  options.vocab_size = 100;
  Conversation conversation(options);
  conversation.Extend(Adds(5, 2));
  const v1::GenerateRequest first = conversation.Request(Adds(5, 2));
  conversation.Answer(Adds(5, 2), "", {98, 99});
  conversation.Extend(Adds(3, 4));

  const v1::GenerateRequest second = conversation.Request(Adds(3, 4));

  ASSERT_EQ(first.token_ids().ids_size(), 5);
  ASSERT_EQ(second.token_ids().ids_size(), 10);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(second.token_ids().ids(i), first.token_ids().ids(i));
  }
  EXPECT_EQ(second.token_ids().ids(5), 98u);
  EXPECT_EQ(second.token_ids().ids(6), 99u);
  EXPECT_EQ(second.sampling_params().max_tokens(), 4);
}

TEST(ConversationTest, RecordedAnswersOfIdsHaveTheLengthOfTheFile) {
  ConversationOptions options;
  options.vocab_size = 100;
  options.history = History::kRecorded;
  Conversation conversation(options);
  conversation.Extend(Adds(5, 7));

  conversation.Answer(Adds(5, 7), "", {1});

  EXPECT_EQ(conversation.Request(Adds(5, 7)).token_ids().ids_size(), 12);
}

TEST(ConversationTest, TargetsAreSentWithEveryTurn) {
  ConversationOptions options;
  Conversation without(options);
  without.Extend(Says("one"));
  EXPECT_FALSE(without.Request(Says("one")).has_targets());
  options.targets.emplace().set_time_to_first_token_ms(300);
  Conversation conversation(options);
  for (const Turn& turn : {Says("one"), Adds(3, 4)}) {
    conversation.Extend(turn);
    EXPECT_EQ(conversation.Request(turn).targets().time_to_first_token_ms(),
              300u);
  }
}

}  // namespace
}  // namespace bole::bench
