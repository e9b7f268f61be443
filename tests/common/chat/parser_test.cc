#include "common/chat/parser.h"

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace bole::jinja {
namespace {

std::string ErrorOf(const std::string& source) {
  return ParseTemplate(source).status().ToString();
}

TEST(ParserTest, WhatIsNotSupportedIsNamedWithItsLine) {
  const auto expect = [](const std::string& source, const std::string& what) {
    EXPECT_EQ(ErrorOf("\n" + source),
              "UNIMPLEMENTED: line 2: " + what + " is not supported");
  };
  expect("{{ x|upper }}", "the filter 'upper'");
  expect("{{ x|map(attribute='y') }}", "the filter 'map'");
  expect("{{ x is divisibleby 3 }}", "the test 'divisibleby'");
  expect("{% include 'x' %}", "{% include %}");
  expect("{% call m() %}{% endcall %}", "{% call %}");
  expect("{% filter trim %}x{% endfilter %}", "{% filter %}");
  expect("{% for x in y %}{% break %}{% endfor %}", "{% break %}");
  expect("{% set x %}y{% endset %}", "{% set %} with a body");
  expect("{% set a, b = c %}", "{% set %} of several names");
  expect("{% for x in y recursive %}{% endfor %}", "a recursive loop");
  expect("{% for x in y %}{% macro m() %}{% endmacro %}{% endfor %}",
         "{% macro %} inside of a loop or macro");
  expect("{{ 2 ** 3 }}", "**");
  expect("{{ f(*x) }}", "unpacking of arguments");
  expect("{{ f(**x) }}", "unpacking of arguments");
  expect("{% macro m() %}{{ caller() }}{% endmacro %}", "the name 'caller'");
  expect("{% raw %}{{ x }}{% endraw %}", "{% raw %}");
}

TEST(ParserTest, SyntaxErrorsNameTheLineAndTheToken) {
  const auto expect = [](const std::string& source, const std::string& what) {
    EXPECT_EQ(ErrorOf(source), "INVALID_ARGUMENT: " + what);
  };
  expect("a\n{% if x %}\nb",
         "line 3: expected {% endif %}, not the end of the "
         "template");
  expect("{% for x in y %}{% else %}",
         "line 1: expected {% endfor %}, not the "
         "end of the template");
  expect("\n{{ 1 2 }}", "line 2: expected }}, not '2'");
  expect("{{ (1, 2 }}", "line 1: tag without end");
  expect("{% set x = 1\n", "line 1: tag without end");
  expect("{% 5 %}", "line 1: expected a tag, not '5'");
  expect("{% endfor %}", "line 1: expected a tag, not 'endfor'");
  expect("{{ x. }}", "line 1: expected a name, not }}");
  expect("{{ x[] }}", "line 1: expected an index, not }}");
  expect("{{ x[1 2] }}", "line 1: expected ']', not '2'");
  expect("{{ if }}", "line 1: expected an expression, not 'if'");
  expect("{{ 99999999999999999999 }}",
         "line 1: expected a smaller number, not '99999999999999999999'");
  expect("{% macro m(a=1, b) %}{% endmacro %}",
         "line 1: expected a default value, not ')'");
  expect("{{ f(a=1, 2) }}", "line 1: expected a named argument, not '2'");
}

TEST(ParserTest, NoPrefixOfATemplateCrashes) {
  const std::string source =
      "{% set ns = namespace(a=1) %}{%- macro m(x, y=[1, {'a': (2,)}]) -%}"
      "{{- x ~ y[::-1]|join('\\u00e9') if x is not none else 1.5e3 }}"
      "{%- endmacro %}{# c #}{% for k, v in d|items if not v in (1, 2) %}"
      "{% if loop.first and k.startswith('a') %}{% set ns.a = -1 %}{% elif v "
      "%}x{% else %}{{ m(k, y=v) }}{% endif %}{% else %}none{% endfor %}\n";
  ASSERT_TRUE(ParseTemplate(source).ok()) << ErrorOf(source);
  for (size_t size = 0; size < source.size(); ++size) {
    const absl::Status status = ParseTemplate(source.substr(0, size)).status();
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  }
}

}  // namespace
}  // namespace bole::jinja
