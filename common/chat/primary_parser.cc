// The second half of ExpressionParser: literals, names, and what follows them.
#include <charconv>
#include <cstdint>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/chat/expression_parser.h"
#include "common/status_macros.h"

namespace bole::jinja {
namespace {

using Kind = Token::Kind;

bool IsReserved(std::string_view name) {
  for (const std::string_view word :
       {"and", "else", "elif", "if", "in", "is", "not", "or"}) {
    if (name == word) return true;
  }
  return false;
}

// Names that Jinja defines inside of macros and blocks.
bool IsUnsupportedName(std::string_view name) {
  for (const std::string_view word :
       {"caller", "kwargs", "self", "super", "varargs"}) {
    if (name == word) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<ExprRef> ExpressionParser::ParsePrimary() {
  switch (tokens_.Peek().kind) {
    case Kind::kName:
      return ParseName();
    case Kind::kInteger:
    case Kind::kFloat:
      return ParseNumber();
    case Kind::kString:
      return ParseStrings();
    default:
      break;
  }
  if (tokens_.IsOperator("(")) return ParseParenthesized();
  if (tokens_.IsOperator("[")) return ParseList();
  if (tokens_.IsOperator("{")) return ParseDict();
  return tokens_.Unexpected("an expression");
}

absl::StatusOr<ExprRef> ExpressionParser::ParseName() {
  if (IsReserved(tokens_.Peek().text)) {
    return tokens_.Unexpected("an expression");
  }
  if (IsUnsupportedName(tokens_.Peek().text)) {
    return tokens_.Unsupported(
        absl::StrCat("the name '", tokens_.Peek().text, "'"));
  }
  const Token& token = tokens_.Next();
  const std::string& name = token.text;
  if (name == "true" || name == "True") {
    return Add(LiteralExpr{Value::Bool(true)}, token.line);
  }
  if (name == "false" || name == "False") {
    return Add(LiteralExpr{Value::Bool(false)}, token.line);
  }
  if (name == "none" || name == "None") {
    return Add(LiteralExpr{Value()}, token.line);
  }
  return Add(NameExpr{name}, token.line);
}

absl::StatusOr<ExprRef> ExpressionParser::ParseNumber() {
  const Token& token = tokens_.Peek();
  const char* end = token.text.data() + token.text.size();
  int64_t integer = 0;
  double number = 0;
  const std::errc error =
      token.kind == Kind::kInteger
          ? std::from_chars(token.text.data(), end, integer).ec
          : std::from_chars(token.text.data(), end, number).ec;
  if (error != std::errc()) return tokens_.Unexpected("a smaller number");
  tokens_.Next();
  return Add(LiteralExpr{token.kind == Kind::kInteger ? Value::Int(integer)
                                                      : Value::Float(number)},
             token.line);
}

// String literals side by side are one.
absl::StatusOr<ExprRef> ExpressionParser::ParseStrings() {
  const int line = Line();
  std::string text;
  while (tokens_.Peek().kind == Kind::kString) text += tokens_.Next().text;
  return Add(LiteralExpr{Value::Str(std::move(text))}, line);
}

// (x) is x; (), (x,) and (x, y) are tuples.
absl::StatusOr<ExprRef> ExpressionParser::ParseParenthesized() {
  const int line = tokens_.Next().line;
  if (tokens_.SkipOperator(")")) return Add(ListExpr{{}, true}, line);
  BOLE_ASSIGN_OR_RETURN(const ExprRef first, Parse());
  if (tokens_.SkipOperator(")")) return first;
  BOLE_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
  BOLE_ASSIGN_OR_RETURN(std::vector<ExprRef> items, ParseItems(")"));
  items.insert(items.begin(), first);
  return Add(ListExpr{std::move(items), /*is_tuple=*/true}, line);
}

absl::StatusOr<ExprRef> ExpressionParser::ParseList() {
  const int line = tokens_.Next().line;
  BOLE_ASSIGN_OR_RETURN(std::vector<ExprRef> items, ParseItems("]"));
  return Add(ListExpr{std::move(items), /*is_tuple=*/false}, line);
}

absl::StatusOr<std::vector<ExprRef>> ExpressionParser::ParseItems(
    std::string_view close) {
  std::vector<ExprRef> items;
  while (!tokens_.SkipOperator(close)) {
    BOLE_ASSIGN_OR_RETURN(const ExprRef item, Parse());
    items.push_back(item);
    if (tokens_.SkipOperator(close)) break;
    BOLE_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
  }
  return items;
}

absl::StatusOr<ExprRef> ExpressionParser::ParseDict() {
  const int line = tokens_.Next().line;
  DictExpr node;
  while (!tokens_.SkipOperator("}")) {
    BOLE_ASSIGN_OR_RETURN(const ExprRef key, Parse());
    BOLE_RETURN_IF_ERROR(tokens_.ExpectOperator(":"));
    BOLE_ASSIGN_OR_RETURN(const ExprRef value, Parse());
    node.items.emplace_back(key, value);
    if (tokens_.SkipOperator("}")) break;
    BOLE_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
  }
  return Add(std::move(node), line);
}

absl::StatusOr<ExprRef> ExpressionParser::ParsePostfix(ExprRef operand) {
  while (true) {
    if (tokens_.IsOperator(".")) {
      BOLE_ASSIGN_OR_RETURN(operand, ParseAttribute(operand));
    } else if (tokens_.IsOperator("[")) {
      BOLE_ASSIGN_OR_RETURN(operand, ParseSubscript(operand));
    } else if (tokens_.IsOperator("(")) {
      BOLE_ASSIGN_OR_RETURN(operand, ParseCall(operand));
    } else {
      return operand;
    }
  }
}

absl::StatusOr<ExprRef> ExpressionParser::ParseAttribute(ExprRef object) {
  const int line = tokens_.Next().line;
  if (tokens_.Peek().kind == Kind::kInteger) {
    BOLE_ASSIGN_OR_RETURN(const ExprRef key, ParseNumber());
    return Add(ItemExpr{object, key}, line);
  }
  BOLE_ASSIGN_OR_RETURN(std::string name, tokens_.ExpectName());
  return Add(AttributeExpr{object, std::move(name)}, line);
}

absl::StatusOr<ExprRef> ExpressionParser::ParseSubscript(ExprRef object) {
  const int line = tokens_.Next().line;
  ExprRef bounds[3] = {};
  int num_colons = 0;
  while (!tokens_.SkipOperator("]")) {
    if (num_colons < 2 && tokens_.SkipOperator(":")) {
      ++num_colons;
    } else if (bounds[num_colons] == nullptr) {
      BOLE_ASSIGN_OR_RETURN(bounds[num_colons], Parse());
    } else {
      return tokens_.Unexpected("']'");
    }
  }
  if (num_colons > 0) {
    return Add(SliceExpr{object, bounds[0], bounds[1], bounds[2]}, line);
  }
  if (bounds[0] == nullptr) return tokens_.Unexpected("an index");
  return Add(ItemExpr{object, bounds[0]}, line);
}

absl::StatusOr<ExprRef> ExpressionParser::ParseCall(ExprRef callee) {
  const int line = Line();
  BOLE_ASSIGN_OR_RETURN(Arguments arguments, ParseArguments());
  return Add(CallExpr{callee, std::move(arguments)}, line);
}

absl::StatusOr<Arguments> ExpressionParser::ParseArguments() {
  BOLE_RETURN_IF_ERROR(tokens_.ExpectOperator("("));
  Arguments arguments;
  while (!tokens_.SkipOperator(")")) {
    BOLE_RETURN_IF_ERROR(ParseArgument(&arguments));
    if (tokens_.SkipOperator(")")) break;
    BOLE_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
  }
  return arguments;
}

absl::Status ExpressionParser::ParseArgument(Arguments* arguments) {
  if (tokens_.IsOperator("*") || tokens_.IsOperator("**")) {
    return tokens_.Unsupported("unpacking of arguments");
  }
  const Token& second = tokens_.PeekSecond();
  if (tokens_.Peek().kind == Kind::kName && second.kind == Kind::kOperator &&
      second.text == "=") {
    std::string name = tokens_.Next().text;
    tokens_.Next();
    BOLE_ASSIGN_OR_RETURN(const ExprRef value, Parse());
    arguments->named.emplace_back(std::move(name), value);
    return absl::OkStatus();
  }
  if (!arguments->named.empty()) return tokens_.Unexpected("a named argument");
  BOLE_ASSIGN_OR_RETURN(const ExprRef value, Parse());
  arguments->positional.push_back(value);
  return absl::OkStatus();
}

absl::StatusOr<ExprRef> ExpressionParser::ParseFiltersAndTests(
    ExprRef operand) {
  while (true) {
    if (tokens_.IsOperator("|")) {
      BOLE_ASSIGN_OR_RETURN(operand, ParseFilter(operand));
    } else if (tokens_.IsName("is")) {
      BOLE_ASSIGN_OR_RETURN(operand, ParseTest(operand));
    } else if (tokens_.IsOperator("(")) {
      BOLE_ASSIGN_OR_RETURN(operand, ParseCall(operand));
    } else {
      return operand;
    }
  }
}

absl::StatusOr<ExprRef> ExpressionParser::ParseFilter(ExprRef operand) {
  const int line = tokens_.Next().line;
  BOLE_ASSIGN_OR_RETURN(const std::string name, tokens_.ExpectName());
  const std::optional<Filter> filter = FindFilter(name);
  if (!filter) {
    return tokens_.Unsupported(absl::StrCat("the filter '", name, "'"));
  }
  FilterExpr node = {.operand = operand, .filter = *filter, .arguments = {}};
  if (tokens_.IsOperator("(")) {
    BOLE_ASSIGN_OR_RETURN(node.arguments, ParseArguments());
  }
  return Add(std::move(node), line);
}

absl::StatusOr<ExprRef> ExpressionParser::ParseTest(ExprRef operand) {
  const int line = tokens_.Next().line;
  const bool is_negated = tokens_.SkipName("not");
  BOLE_ASSIGN_OR_RETURN(const std::string name, tokens_.ExpectName());
  const std::optional<ValueTest> test = FindTest(name);
  if (!test) return tokens_.Unsupported(absl::StrCat("the test '", name, "'"));
  return Add(TestExpr{operand, *test, is_negated}, line);
}

}  // namespace bole::jinja
