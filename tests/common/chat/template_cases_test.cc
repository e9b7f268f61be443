// Every construct of the template language, against frozen outputs of jinja2.

#include "tests/common/chat/template_cases.h"

#include <string>

#include "gtest/gtest.h"

namespace bole {
namespace {

using testing::Json;

TEST(TemplateCasesTest, EveryCaseRendersAsInJinja) {
  const std::optional<std::string> text = testing::FileText(testing::kCases);
  ASSERT_TRUE(text.has_value());
  const Json cases = Json::parse(*text);

  ASSERT_GT(cases.size(), 100u);
  for (const Json& c : cases) {
    SCOPED_TRACE(c["name"].get<std::string>());
    const auto rendered =
        testing::Render(c["template"].get<std::string>(), c["context"]);
    if (c.contains("fails")) {
      EXPECT_FALSE(rendered.ok()) << *rendered;
      continue;
    }
    ASSERT_TRUE(rendered.ok()) << rendered.status();
    EXPECT_EQ(*rendered, c["expected"].get<std::string>());
  }
}

}  // namespace
}  // namespace bole
