#include "common/command_line.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace bole {
namespace {

enum class Color { kRed, kGreen };

constexpr Choices<Color> kColors = {{"red", Color::kRed},
                                    {"green", Color::kGreen}};

// What became of a command line.
struct Outcome {
  std::optional<int> exit_code;
  std::string out;
  std::string err;

  bool goes_on() const { return !exit_code; }
  bool Refuses(const std::string& text) const {
    return exit_code && *exit_code != 0 && err.find(text) != std::string::npos;
  }
};

Outcome Parse(CommandLine& line, std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "program");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.exit_code =
      line.Parse(static_cast<int>(arguments.size()), arguments.data());
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

// The line of --help about `name`.
std::string HelpOn(const std::string& name, CommandLine& line) {
  const Outcome outcome = Parse(line, {"--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  const size_t begin = outcome.out.find("  " + name);
  if (begin == std::string::npos) return "";
  return outcome.out.substr(begin + 2, outcome.out.find('\n', begin) - begin);
}

class CommandLineTest : public testing::Test {
 protected:
  CommandLine line_ = CommandLine("program", "What it is for.");
};

TEST_F(CommandLineTest, ValuesOfEveryTypeAreSet) {
  int number = 0;
  uint64_t large = 0;
  double real = 0;
  float small = 0;
  std::string text;
  std::vector<uint32_t> ids;
  line_.Add("--number", number, "");
  line_.Add("--large", large, "");
  line_.Add("--real", real, "");
  line_.Add("--small", small, "");
  line_.Add("--text,-t", text, "");
  line_.Add("IDS", ids, "");

  EXPECT_TRUE(
      Parse(line_, {"7", "--number", "-3", "--large", "18446744073709551615",
                    "--real", "0.1", "--small=0.25", "-t", "a b", "8"})
          .goes_on());
  EXPECT_EQ(number, -3);
  EXPECT_EQ(large, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(real, 0.1);
  EXPECT_EQ(small, 0.25f);
  EXPECT_EQ(text, "a b");
  EXPECT_EQ(ids, (std::vector<uint32_t>{7, 8}));
}

TEST_F(CommandLineTest, WhatIsNotGivenStays) {
  int number = 5;
  std::optional<int> absent;
  std::optional<int> present;
  line_.Add("--number", number, "");
  line_.Add("--absent", absent, "");
  line_.Add("--present", present, "");

  EXPECT_TRUE(Parse(line_, {"--present", "0"}).goes_on());
  EXPECT_EQ(number, 5);
  EXPECT_EQ(absent, std::nullopt);
  EXPECT_EQ(present, 0);
}

TEST_F(CommandLineTest, HelpShowsDefaultsThatSaySomething) {
  int number = 5;
  std::string text = "abc";
  std::string empty;
  std::optional<double> absent;
  std::vector<int> several = {1, 2};
  std::vector<int> none;
  line_.Add("--number", number, "of things");
  line_.Add("--text", text, "");
  line_.Add("--empty", empty, "");
  line_.Add("--absent", absent, "");
  line_.Add("--several", several, "");
  line_.Add("--none", none, "");

  const std::string help = HelpOn("--number", line_);
  EXPECT_NE(help.find("INT=5"), std::string::npos) << help;
  EXPECT_NE(help.find("of things"), std::string::npos) << help;
  EXPECT_NE(HelpOn("--text", line_).find("=abc"), std::string::npos);
  EXPECT_NE(HelpOn("--several", line_).find("=[1,2]"), std::string::npos);
  for (const char* name : {"--empty", "--absent", "--none"}) {
    const std::string without = HelpOn(name, line_);
    EXPECT_NE(without, "");
    EXPECT_EQ(without.find('='), std::string::npos) << without;
  }
}

TEST_F(CommandLineTest, HelpHasTheProgramItsPurposeAndTheFooter) {
  line_.Footer("The end.");

  const Outcome outcome = Parse(line_, {"-h"});
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* text : {"What it is for.", "Usage: program", "The end."}) {
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text;
  }
}

TEST_F(CommandLineTest, WhatIsNoValueOrNoFlagIsRefusedByName) {
  int number = 0;
  line_.Add("--number", number, "");

  EXPECT_TRUE(Parse(line_, {"--number", "many"}).Refuses("--number"));
  EXPECT_TRUE(Parse(line_, {"--number", "1.5"}).Refuses("--number"));
  EXPECT_TRUE(Parse(line_, {"--number", "3000000000"}).Refuses("--number"));
  EXPECT_TRUE(Parse(line_, {"--number"}).Refuses("--number"));
  EXPECT_TRUE(Parse(line_, {"--sideways"}).Refuses("--sideways"));
}

TEST_F(CommandLineTest, BoundsAreAllowedAndWhatIsBeyondIsNot) {
  int number = 0;
  double share = 0;
  line_.Add("--number", number, "").Range(1, 3);
  line_.Add("--share", share, "").Range(0.5, 1.0);

  for (const char* good : {"1", "3"}) {
    EXPECT_TRUE(Parse(line_, {"--number", good}).goes_on()) << good;
  }
  for (const char* bad : {"0", "4"}) {
    EXPECT_TRUE(Parse(line_, {"--number", bad}).Refuses("--number")) << bad;
  }
  for (const char* good : {"0.5", "1"}) {
    EXPECT_TRUE(Parse(line_, {"--share", good}).goes_on()) << good;
  }
  for (const char* bad : {"0.4", "1.1"}) {
    EXPECT_TRUE(Parse(line_, {"--share", bad}).Refuses("--share")) << bad;
  }
}

TEST_F(CommandLineTest, ZeroIsNotNegativeAndNotPositive) {
  double factor = 1;
  double seconds = 1;
  line_.Add("--factor", factor, "").Positive();
  line_.Add("--seconds", seconds, "").NonNegative();

  EXPECT_TRUE(Parse(line_, {"--seconds", "0"}).goes_on());
  EXPECT_TRUE(Parse(line_, {"--seconds", "-0.1"}).Refuses("--seconds"));
  EXPECT_TRUE(Parse(line_, {"--factor", "0.1"}).goes_on());
  EXPECT_TRUE(Parse(line_, {"--factor", "0"}).Refuses("--factor"));
}

TEST_F(CommandLineTest, SeveralNumbersMayBeSeparatedByCommasOrBlanks) {
  std::vector<int> numbers = {9};
  line_.Add("--numbers", numbers, "").Range(1, 4);

  EXPECT_TRUE(Parse(line_, {"--numbers", "1,2", "3"}).goes_on());
  EXPECT_EQ(numbers, (std::vector<int>{1, 2, 3}));
  EXPECT_TRUE(Parse(line_, {"--numbers", "1,5"}).Refuses("--numbers"));
}

TEST_F(CommandLineTest, ATextWithACommaIsOneUnlessItIsOneOfAList) {
  std::vector<std::string> texts;
  std::vector<std::string> listed;
  std::string single;
  line_.Add("--texts", texts, "");
  line_.Add("--listed", listed, "").OneOf({"a", "b"});
  line_.Add("--single", single, "").OneOf({"a", "b"});

  EXPECT_TRUE(Parse(line_, {"--texts", "a,b", "--listed", "b,a"}).goes_on());
  EXPECT_EQ(texts, std::vector<std::string>{"a,b"});
  EXPECT_EQ(listed, (std::vector<std::string>{"b", "a"}));
  EXPECT_TRUE(Parse(line_, {"--listed", "a,c"}).Refuses("c not in {a,b}"));
  EXPECT_TRUE(Parse(line_, {"--single", "a,b"}).Refuses("a,b not in {a,b}"));
}

TEST_F(CommandLineTest, OneValueEachTimeLeavesTheRestToArguments) {
  std::vector<std::string> stop;
  std::string prompt;
  line_.Add("--stop", stop, "").OneValueEachTime();
  line_.Add("PROMPT", prompt, "");

  EXPECT_TRUE(Parse(line_, {"--stop", "x", "hi", "--stop", "y"}).goes_on());
  EXPECT_EQ(stop, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(prompt, "hi");
}

TEST_F(CommandLineTest, PathsMustBeThere) {
  std::string file;
  std::string folder;
  line_.Add("--file", file, "").ExistingFile();
  line_.Add("--folder", folder, "").ExistingDirectory();

  EXPECT_TRUE(Parse(line_, {"--folder", "/"}).goes_on());
  EXPECT_TRUE(Parse(line_, {"--file", "/"}).Refuses("--file"));
  EXPECT_TRUE(Parse(line_, {"--folder", "/no/such"}).Refuses("/no/such"));
  EXPECT_TRUE(Parse(line_, {"--file", "/no/such"}).Refuses("/no/such"));
}

TEST_F(CommandLineTest, ACheckSaysWhatIsWrong) {
  std::string name;
  line_.Add("--name", name, "").Check([](const std::string& text) {
    return std::string(text == "good" ? "" : "a bad name");
  });

  EXPECT_TRUE(Parse(line_, {"--name", "good"}).goes_on());
  EXPECT_TRUE(Parse(line_, {"--name", "evil"}).Refuses("a bad name"));
}

TEST_F(CommandLineTest, WhatIsRequiredMustBeGiven) {
  int number = 0;
  line_.Add("--number", number, "").Required();

  EXPECT_TRUE(Parse(line_, {}).Refuses("--number"));
  EXPECT_TRUE(Parse(line_, {"--number", "1"}).goes_on());
}

TEST_F(CommandLineTest, FlagsExcludeAndNeedOthers) {
  int rate = 0;
  int users = 0;
  bool strict = false;
  const Flag rate_flag = line_.Add("--rate", rate, "");
  line_.Add("--users", users, "").Excludes(rate_flag);
  line_.AddSwitch("--strict", strict, "").Needs(rate_flag);

  EXPECT_TRUE(Parse(line_, {"--rate", "1", "--strict"}).goes_on());
  EXPECT_TRUE(Parse(line_, {"--users", "1"}).goes_on());
  EXPECT_TRUE(Parse(line_, {"--strict"}).Refuses("--rate"));
  EXPECT_TRUE(Parse(line_, {"--rate", "1", "--users", "1"}).Refuses("--rate"));
}

TEST_F(CommandLineTest, TheEnvironmentStandsInForAFlag) {
  std::string server = "default";
  line_.Add("--server", server, "").Environment("COMMAND_LINE_TEST_SERVER");
  // NOLINTNEXTLINE(concurrency-mt-unsafe): this test has one thread.
  ASSERT_EQ(setenv("COMMAND_LINE_TEST_SERVER", "there", 1), 0);

  EXPECT_TRUE(Parse(line_, {}).goes_on());
  EXPECT_EQ(server, "there");
  EXPECT_TRUE(Parse(line_, {"--server", "here"}).goes_on());
  EXPECT_EQ(server, "here");
}

TEST_F(CommandLineTest, AGroupHasItsHeading) {
  int number = 0;
  line_.Add("--number", number, "").Group("Sizes");

  const std::string help = Parse(line_, {"--help"}).out;
  EXPECT_LT(help.find("Sizes:\n"), help.find("--number"));
}

TEST_F(CommandLineTest, ASwitchHasNoValueAndMayHaveAnOpposite) {
  bool plain = false;
  bool graphs = true;
  line_.AddSwitch("--plain", plain, "");
  line_.AddSwitch("--graphs,!--no-graphs", graphs, "");

  EXPECT_TRUE(Parse(line_, {}).goes_on());
  EXPECT_FALSE(plain);
  EXPECT_TRUE(graphs);
  EXPECT_TRUE(Parse(line_, {"--plain", "--no-graphs"}).goes_on());
  EXPECT_TRUE(plain);
  EXPECT_FALSE(graphs);
  EXPECT_TRUE(Parse(line_, {"--graphs"}).goes_on());
  EXPECT_TRUE(graphs);
}

TEST_F(CommandLineTest, AChoiceIsGivenByItsName) {
  Color color = Color::kGreen;
  line_.AddChoice("--color", color, kColors, "of it");

  const std::string help = HelpOn("--color", line_);
  EXPECT_NE(help.find("--color {red,green}=green"), std::string::npos) << help;
  EXPECT_TRUE(Parse(line_, {}).goes_on());
  EXPECT_EQ(color, Color::kGreen);
  EXPECT_TRUE(Parse(line_, {"--color", "red"}).goes_on());
  EXPECT_EQ(color, Color::kRed);
  EXPECT_TRUE(
      Parse(line_, {"--color", "blue"}).Refuses("blue not in {red,green}"));
  EXPECT_TRUE(Parse(line_, {"--color", "1"}).Refuses("--color"));
}

TEST_F(CommandLineTest, TheCommandThatIsGivenIsKnown) {
  int number = 0;
  line_.Footer("The end.");
  CommandLine& go = line_.AddCommand("go", "Goes.");
  line_.AddCommand("stop", "Stops.");
  go.Add("--number", number, "");
  go.AddCommand("back", "Goes back.");

  EXPECT_TRUE(Parse(line_, {}).goes_on());
  EXPECT_EQ(line_.command(), std::nullopt);
  EXPECT_TRUE(Parse(line_, {"stop"}).goes_on());
  EXPECT_EQ(line_.command(), 1u);
  EXPECT_TRUE(Parse(line_, {"go", "--number", "4"}).goes_on());
  EXPECT_EQ(line_.command(), 0u);
  EXPECT_EQ(go.command(), std::nullopt);
  EXPECT_EQ(number, 4);
  EXPECT_TRUE(Parse(line_, {"go", "back"}).goes_on());
  EXPECT_EQ(go.command(), 0u);
  EXPECT_FALSE(Parse(line_, {"go", "stop"}).goes_on());
  EXPECT_FALSE(Parse(line_, {"stop", "--number", "4"}).goes_on());

  const std::string help = Parse(line_, {"go", "--help"}).out;
  for (const char* text : {"Goes.", "--number", "back", "The end."}) {
    EXPECT_NE(help.find(text), std::string::npos) << text;
  }
}

TEST_F(CommandLineTest, ACommandMayBeRequired) {
  line_.RequireCommand();
  line_.AddCommand("go", "Goes.");

  EXPECT_FALSE(Parse(line_, {}).goes_on());
  EXPECT_TRUE(Parse(line_, {"go"}).goes_on());
  EXPECT_FALSE(Parse(line_, {"fly"}).goes_on());
}

}  // namespace
}  // namespace bole
