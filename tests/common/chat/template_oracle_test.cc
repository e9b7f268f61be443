// Our templates, and those of checkpoints with many conversations, against the
// jinja2 that is installed. Skips where there is none. The templates of
// checkpoints are not in the tree: they come from BOLE_DATA_DIR, but for the
// demo model's.

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "tests/common/chat/template_cases.h"

namespace bole {
namespace {

using testing::Json;

constexpr int kNoJinja = 77;  // The oracle's exit status without jinja2.

// What jinja2 makes of each case: {output} or {error}. Null without jinja2.
Json AskOracle(const Json& cases) {
  const std::string folder = ::testing::TempDir();
  const std::string input = folder + "/oracle_cases.json";
  const std::string output = folder + "/oracle_results.json";
  std::ofstream(input) << cases.dump();
  const std::string command = "python3 tests/common/chat/jinja_oracle.py < '" +
                              input + "' > '" + output + "'";
  // NOLINTNEXTLINE(concurrency-mt-unsafe): this test has one thread.
  const int status = std::system(command.c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoJinja) return nullptr;
  EXPECT_EQ(status, 0);
  return Json::parse(testing::FileText(output).value_or("[]"));
}

// Compares each case with the oracle. Skips the test without one.
void CompareWithOracle(const Json& cases) {
  const Json results = AskOracle(cases);
  if (results.is_null()) GTEST_SKIP() << "needs python3-jinja2";
  ASSERT_EQ(results.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i]["name"].get<std::string>());
    const auto rendered = testing::Render(
        cases[i]["template"].get<std::string>(), cases[i]["context"]);
    if (results[i].contains("error")) {
      EXPECT_FALSE(rendered.ok()) << results[i]["error"];
      continue;
    }
    ASSERT_TRUE(rendered.ok()) << rendered.status();
    EXPECT_EQ(*rendered, results[i]["output"].get<std::string>());
  }
}

// A case for each conversation.
Json CasesOf(const std::string& source) {
  Json cases = Json::array();
  for (const Json& conversation :
       Json::parse(testing::FileText(testing::kConversations).value_or(""))) {
    cases.push_back({{"name", conversation["name"]},
                     {"template", source},
                     {"context", conversation["context"]}});
  }
  return cases;
}

TEST(TemplateOracleTest, TheFrozenCasesAreStillWhatJinjaGives) {
  const Json cases =
      Json::parse(testing::FileText(testing::kCases).value_or("[]"));
  ASSERT_GT(cases.size(), 100u);

  const Json results = AskOracle(cases);

  if (results.is_null()) GTEST_SKIP() << "needs python3-jinja2";
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i]["name"].get<std::string>());
    EXPECT_EQ(cases[i].contains("fails"), results[i].contains("error"));
    EXPECT_EQ(cases[i].value("expected", Json()),
              results[i].value("output", Json()));
  }
}

TEST(TemplateOracleTest, TheDemoTemplateRendersAsInJinja) {
  const auto config = testing::FileText("models/demo/tokenizer_config.json");
  ASSERT_TRUE(config.has_value());

  CompareWithOracle(
      CasesOf(Json::parse(*config)["chat_template"].get<std::string>()));
}

class CheckpointOracleTest : public ::testing::TestWithParam<const char*> {};

TEST_P(CheckpointOracleTest, RendersAsInJinja) {
  const std::optional<std::string> source =
      testing::CheckpointTemplate(GetParam());
  if (!source) GTEST_SKIP() << "needs tokenizer/templates in BOLE_DATA_DIR";

  CompareWithOracle(CasesOf(*source));
}

INSTANTIATE_TEST_SUITE_P(Qwen, CheckpointOracleTest,
                         ::testing::Values("qwen2.5.jinja", "qwen3.jinja",
                                           "qwen3-coder.jinja",
                                           "qwen3.5.jinja"));

}  // namespace
}  // namespace bole
