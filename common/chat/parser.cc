#include "common/chat/parser.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/chat/expression_parser.h"
#include "common/chat/lexer.h"
#include "common/chat/token_stream.h"
#include "common/status_macros.h"

namespace bole::jinja {
namespace {

using Kind = Token::Kind;
using Names = std::span<const std::string_view>;

class Parser {
 public:
  Parser(std::vector<Token> tokens, Template* result)
      : tokens_(std::move(tokens)),
        template_(*result),
        expressions_(&tokens_, result, &depth_) {}

  absl::Status Run() {
    BOLE_ASSIGN_OR_RETURN(template_.body, ParseBody({}));
    return tokens_.Expect(Kind::kEnd);
  }

 private:
  // Statements up to a tag that starts with one of `ends`, of which the {% is
  // consumed and the name is not; without `ends`, up to the end.
  absl::StatusOr<Body> ParseBody(Names ends) {
    const Nesting nesting(&depth_);
    if (depth_ > kMaxTemplateDepth) {
      return tokens_.Unexpected(
          absl::StrCat("no more than ", kMaxTemplateDepth, " levels"));
    }
    Body body;
    while (tokens_.Peek().kind != Kind::kEnd) {
      const Token& token = tokens_.Next();
      if (token.kind == Kind::kText) {
        body.push_back({TextStatement{token.text}, token.line});
      } else if (token.kind == Kind::kExprBegin) {
        BOLE_ASSIGN_OR_RETURN(const ExprRef value, expressions_.Parse());
        BOLE_RETURN_IF_ERROR(tokens_.Expect(Kind::kExprEnd));
        body.push_back({OutputStatement{value}, token.line});
      } else if (IsOneOf(ends)) {
        return body;
      } else {
        BOLE_ASSIGN_OR_RETURN(Statement statement, ParseTag());
        body.push_back(std::move(statement));
      }
    }
    if (ends.empty()) return body;
    return tokens_.Unexpected(
        absl::StrCat("{% ", std::string(ends.back()), " %}"));
  }

  bool IsOneOf(Names names) const {
    return tokens_.Peek().kind == Kind::kName &&
           std::find(names.begin(), names.end(), tokens_.Peek().text) !=
               names.end();
  }

  absl::StatusOr<Statement> ParseTag() {
    const int line = tokens_.Peek().line;
    const auto with_line = [line](auto node) -> absl::StatusOr<Statement> {
      if (!node.ok()) return node.status();
      return Statement{*std::move(node), line};
    };
    if (tokens_.SkipName("if")) return with_line(ParseIf());
    if (tokens_.SkipName("for")) return with_line(ParseFor());
    if (tokens_.SkipName("set")) return with_line(ParseSet());
    if (tokens_.IsName("macro")) return with_line(ParseMacro());
    const std::string& name = tokens_.Peek().text;
    if (tokens_.Peek().kind != Kind::kName || name.starts_with("end") ||
        name.starts_with("el")) {
      return tokens_.Unexpected("a tag");
    }
    return tokens_.Unsupported(absl::StrCat("{% ", name, " %}"));
  }

  absl::StatusOr<IfStatement> ParseIf() {
    constexpr std::string_view kEnds[] = {"elif", "else", "endif"};
    constexpr std::string_view kLastEnd[] = {"endif"};
    IfStatement node;
    bool is_else = false;
    do {
      ExprRef condition = nullptr;
      if (!is_else) {
        BOLE_ASSIGN_OR_RETURN(condition, expressions_.Parse());
      }
      BOLE_RETURN_IF_ERROR(tokens_.Expect(Kind::kTagEnd));
      BOLE_ASSIGN_OR_RETURN(Body body,
                            ParseBody(is_else ? Names(kLastEnd) : kEnds));
      node.branches.emplace_back(condition, std::move(body));
      is_else = tokens_.IsName("else");
    } while (tokens_.Next().text != "endif");
    BOLE_RETURN_IF_ERROR(tokens_.Expect(Kind::kTagEnd));
    return node;
  }

  absl::StatusOr<ForStatement> ParseFor() {
    constexpr std::string_view kEnds[] = {"else", "endfor"};
    constexpr std::string_view kLastEnd[] = {"endfor"};
    ForStatement node = {};
    do {
      BOLE_ASSIGN_OR_RETURN(std::string target, tokens_.ExpectName());
      node.targets.push_back(std::move(target));
    } while (tokens_.SkipOperator(","));
    if (!tokens_.SkipName("in")) return tokens_.Unexpected("'in'");
    BOLE_ASSIGN_OR_RETURN(node.iterable, expressions_.ParseOr());
    if (tokens_.SkipName("if")) {
      BOLE_ASSIGN_OR_RETURN(node.filter, expressions_.Parse());
    }
    if (tokens_.IsName("recursive")) {
      return tokens_.Unsupported("a recursive loop");
    }
    BOLE_RETURN_IF_ERROR(tokens_.Expect(Kind::kTagEnd));
    ++loop_depth_;
    BOLE_ASSIGN_OR_RETURN(node.body, ParseBody(kEnds));
    --loop_depth_;
    if (tokens_.Next().text == "else") {
      BOLE_RETURN_IF_ERROR(tokens_.Expect(Kind::kTagEnd));
      BOLE_ASSIGN_OR_RETURN(node.otherwise, ParseBody(kLastEnd));
      tokens_.Next();
    }
    BOLE_RETURN_IF_ERROR(tokens_.Expect(Kind::kTagEnd));
    return node;
  }

  absl::StatusOr<SetStatement> ParseSet() {
    SetStatement node = {};
    BOLE_ASSIGN_OR_RETURN(node.name, tokens_.ExpectName());
    if (tokens_.SkipOperator(".")) {
      BOLE_ASSIGN_OR_RETURN(node.attribute, tokens_.ExpectName());
    }
    if (tokens_.Peek().kind == Kind::kTagEnd || tokens_.IsOperator("|")) {
      return tokens_.Unsupported("{% set %} with a body");
    }
    if (tokens_.IsOperator(",")) {
      return tokens_.Unsupported("{% set %} of several names");
    }
    BOLE_RETURN_IF_ERROR(tokens_.ExpectOperator("="));
    BOLE_ASSIGN_OR_RETURN(node.value, expressions_.Parse());
    BOLE_RETURN_IF_ERROR(tokens_.Expect(Kind::kTagEnd));
    return node;
  }

  absl::StatusOr<MacroStatement> ParseMacro() {
    constexpr std::string_view kEnds[] = {"endmacro"};
    // A macro sees the variables of the template, not those of a loop or of
    // another macro.
    if (loop_depth_ > 0) {
      return tokens_.Unsupported("{% macro %} inside of a loop or macro");
    }
    tokens_.Next();
    auto macro = std::make_unique<Macro>();
    BOLE_ASSIGN_OR_RETURN(macro->name, tokens_.ExpectName());
    BOLE_RETURN_IF_ERROR(tokens_.ExpectOperator("("));
    while (!tokens_.SkipOperator(")")) {
      BOLE_RETURN_IF_ERROR(ParseParameter(macro.get()));
      if (tokens_.SkipOperator(")")) break;
      BOLE_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
    }
    BOLE_RETURN_IF_ERROR(tokens_.Expect(Kind::kTagEnd));
    ++loop_depth_;
    BOLE_ASSIGN_OR_RETURN(macro->body, ParseBody(kEnds));
    --loop_depth_;
    tokens_.Next();
    BOLE_RETURN_IF_ERROR(tokens_.Expect(Kind::kTagEnd));
    return MacroStatement{std::move(macro)};
  }

  absl::Status ParseParameter(Macro* macro) {
    BOLE_ASSIGN_OR_RETURN(std::string name, tokens_.ExpectName());
    ExprRef default_value = nullptr;
    if (tokens_.SkipOperator("=")) {
      BOLE_ASSIGN_OR_RETURN(default_value, expressions_.Parse());
    }
    const bool is_optional = !macro->parameters.empty() &&
                             macro->parameters.back().second != nullptr;
    if (default_value == nullptr && is_optional) {
      return tokens_.Unexpected("a default value");
    }
    macro->parameters.emplace_back(std::move(name), default_value);
    return absl::OkStatus();
  }

  TokenStream tokens_;
  Template& template_;
  ExpressionParser expressions_;
  int depth_ = 0;
  int loop_depth_ = 0;  // Loops and macros around the current tag.
};

}  // namespace

absl::StatusOr<Template> ParseTemplate(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the template has ", source.size(),
                     " bytes; the limit is ", kMaxTemplateBytes));
  }
  BOLE_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  Template result;
  BOLE_RETURN_IF_ERROR(Parser(std::move(tokens), &result).Run());
  return result;
}

}  // namespace bole::jinja
