// Templates made to hang, to fill the memory or to overflow the stack.

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/common/chat/template_cases.h"

namespace bole {
namespace {

using testing::Json;

Json HundredItems() {
  Json items = Json::array();
  for (int i = 0; i < 100; ++i) items.push_back(i);
  return {{"l", items}, {"x", Json::object()}};
}

absl::Status StatusOf(const std::string& source) {
  const auto start = std::chrono::steady_clock::now();
  absl::Status status = testing::Render(source, HundredItems()).status();
  // A fraction of a second when optimised.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
  return status;
}

std::string Repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

// `body` for every item of `l`, with a namespace `n`.
std::string Loop(const std::string& body) {
  return "{% set n = namespace(v='0123456789abcdef', w=[]) %}"
         "{% for i in l %}" +
         body + "{% endfor %}";
}

TEST(TemplateLimitsTest, StepsAreBounded) {
  for (const std::string& source :
       {Repeated("{% for a in l %}", 6) + Repeated("{% endfor %}", 6),
        std::string("{% macro m(n) %}{% if n > 0 %}{{ m(n - 1) }}{{ m(n - 1) }}"
                    "{% endif %}{% endmacro %}{{ m(40) }}"),
        "{% set s = 'a' * 9000000 %}" + Loop("{{ 'b' in s }}"),
        "{% set s = 'a' * 9000000 %}" + Loop("{{ s|length }}"),
        Loop(Loop(Loop("{% set a = namespace() %}")))}) {
    SCOPED_TRACE(source);
    EXPECT_TRUE(absl::IsResourceExhausted(StatusOf(source)));
  }
}

TEST(TemplateLimitsTest, StringsListsAndOutputAreBounded) {
  for (const std::string& source :
       {std::string("{{ 'a' * 1000000000000 }}"),
        Loop("{% set n.v = n.v + n.v %}"), Loop("{% set n.v = n.v ~ n.v %}"),
        "{% set s = 'a' * 1000000 %}" + Loop("{{ s }}"),
        std::string("{{ l|join('a' * 1000000) }}"),
        std::string("{{ (',' * 1100000).split(',')|length }}"),
        std::string("{% for c in 'a' * 4000000 %}{% endfor %}"),
        Loop("{% set n.w = n.w + n.w + [1] %}")}) {
    SCOPED_TRACE(source);
    EXPECT_TRUE(absl::IsResourceExhausted(StatusOf(source)));
  }
}

TEST(TemplateLimitsTest, ValuesThatShareTheirPartsDoNotExplode) {
  const std::string grow = Loop(
      "{% if i < 60 %}{% set n.w = [n.w, n.w] %}"
      "{% endif %}");
  for (const char* use :
       {"{{ n.w|tojson }}", "{{ n.w }}", "{{ n.w == [n.w, n.w][0] }}",
        "{{ n.w in [1, n.w] }}"}) {
    SCOPED_TRACE(use);
    EXPECT_TRUE(absl::IsResourceExhausted(StatusOf(grow + use)));
  }
}

TEST(TemplateLimitsTest, DepthOfValuesIsBounded) {
  for (const std::string& source :
       {Loop("{% set n.w = [n.w] %}"), Loop("{% set n.w = {'a': n.w} %}"),
        Loop("{% for j in [n.w] %}{% set n.w = loop %}{% endfor %}"),
        Loop("{% set n.w = {'a': {'b': n.w}.items} %}")}) {
    SCOPED_TRACE(source);
    EXPECT_TRUE(absl::IsResourceExhausted(StatusOf(source)));
  }
}

TEST(TemplateLimitsTest, RecursionOfMacrosIsBounded) {
  EXPECT_TRUE(absl::IsResourceExhausted(
      StatusOf("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}")));
}

TEST(TemplateLimitsTest, NestingOfTemplatesIsBounded) {
  constexpr int kMany = 50'000;
  for (const std::string& source :
       {"{{ " + Repeated("-", kMany) + "1 }}",
        "{{ " + Repeated("not ", kMany) + "1 }}",
        "{{ " + Repeated("(", kMany) + "1" + Repeated(")", kMany) + " }}",
        "{{ " + Repeated("[", kMany) + Repeated("]", kMany) + " }}",
        "{{ " + Repeated("{'a':", kMany) + "1" + Repeated("}", kMany) + " }}",
        "{{ " + Repeated("x[", kMany) + "1" + Repeated("]", kMany) + " }}",
        "{{ " + Repeated("x(", kMany) + Repeated(")", kMany) + " }}",
        "{{ 1" + Repeated(" if 1 else 1", kMany) + " }}",
        Repeated("{% if 1 %}", kMany) + Repeated("{% endif %}", kMany),
        Repeated("{% for i in l %}", kMany)}) {
    SCOPED_TRACE(source.substr(0, 40));
    EXPECT_TRUE(absl::IsInvalidArgument(StatusOf(source)));
  }
}

TEST(TemplateLimitsTest, LongChainsAreAnErrorAndNotACrash) {
  constexpr int kMany = 50'000;
  for (const char* link :
       {"+1", "~'a'", "|string", " and 1", " or 0", "*1", " is none"}) {
    SCOPED_TRACE(link);
    EXPECT_TRUE(absl::IsResourceExhausted(
        StatusOf("{{ 1" + Repeated(link, kMany) + " }}")));
  }
  for (const char* link : {".a", "[0]", "()", "[1:]"}) {
    SCOPED_TRACE(link);
    EXPECT_TRUE(absl::IsResourceExhausted(
        StatusOf("{{ x" + Repeated(link, kMany) + " }}")));
  }
  EXPECT_TRUE(
      StatusOf("{% if 0 %}" + Repeated("{% elif 0 %}", kMany) + "{% endif %}")
          .ok());
}

TEST(TemplateLimitsTest, DeepContextsAreAnError) {
  Json deep = 1;
  for (int i = 0; i < 200; ++i) deep = Json::array({deep});

  const absl::Status status =
      testing::Render("{{ x }}", {{"x", deep}}).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "JSON nested deeper than 100");
}

TEST(TemplateLimitsTest, LongTemplatesAreAnError) {
  EXPECT_EQ(StatusOf(std::string((1 << 20) + 1, 'a')).message(),
            "the template has 1048577 bytes; the limit is 1048576");
}

TEST(TemplateLimitsTest, LongConversationsFitIntoTheBudget) {
  Json messages = Json::array();
  for (int i = 0; i < 5000; ++i) {
    messages.push_back(
        {{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", " x "}});
  }
  const std::string source =
      "{% set ns = namespace(last=0) %}{% for m in messages[::-1] %}"
      "{% set index = (messages|length - 1) - loop.index0 %}"
      "{% if m.role == 'user' and not m.content.startswith('<') %}"
      "{% set ns.last = ns.last + index %}{% endif %}{% endfor %}"
      "{% for m in messages %}{{ '<' + m.role + '>' + m.content|trim }}"
      "{% endfor %}";

  const auto text = testing::Render(source, {{"messages", messages}});

  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->size(), 5000u / 2 * (7 + 12));
}

}  // namespace
}  // namespace bole
