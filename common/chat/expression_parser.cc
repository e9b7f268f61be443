// Operators. Primaries and what follows them are in primary_parser.cc.
#include "common/chat/expression_parser.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole::jinja {

absl::StatusOr<ExprRef> ExpressionParser::Parse() {
  const Nesting nesting(depth_);
  BOLE_RETURN_IF_ERROR(CheckDepth());
  BOLE_ASSIGN_OR_RETURN(ExprRef expr, ParseOr());
  while (tokens_.IsName("if")) {
    const int line = Line();
    tokens_.Next();
    ConditionalExpr node = {
        .condition = nullptr, .if_true = expr, .if_false = nullptr};
    BOLE_ASSIGN_OR_RETURN(node.condition, ParseOr());
    if (tokens_.SkipName("else")) {
      BOLE_ASSIGN_OR_RETURN(node.if_false, Parse());
    }
    expr = Add(node, line);
  }
  return expr;
}

absl::Status ExpressionParser::CheckDepth() const {
  if (*depth_ <= kMaxTemplateDepth) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "line ", Line(), ": nested deeper than ", kMaxTemplateDepth));
}

absl::StatusOr<ExprRef> ExpressionParser::ParseOr() {
  BOLE_ASSIGN_OR_RETURN(ExprRef left, ParseAnd());
  while (tokens_.IsName("or")) {
    const int line = tokens_.Next().line;
    BOLE_ASSIGN_OR_RETURN(const ExprRef right, ParseAnd());
    left = Add(BinaryExpr{BinaryOp::kOr, left, right}, line);
  }
  return left;
}

absl::StatusOr<ExprRef> ExpressionParser::ParseAnd() {
  BOLE_ASSIGN_OR_RETURN(ExprRef left, ParseNot());
  while (tokens_.IsName("and")) {
    const int line = tokens_.Next().line;
    BOLE_ASSIGN_OR_RETURN(const ExprRef right, ParseNot());
    left = Add(BinaryExpr{BinaryOp::kAnd, left, right}, line);
  }
  return left;
}

absl::StatusOr<ExprRef> ExpressionParser::ParseNot() {
  if (!tokens_.IsName("not")) return ParseComparison();
  const Nesting nesting(depth_);
  BOLE_RETURN_IF_ERROR(CheckDepth());
  const int line = tokens_.Next().line;
  BOLE_ASSIGN_OR_RETURN(const ExprRef operand, ParseNot());
  return Add(UnaryExpr{UnaryOp::kNot, operand}, line);
}

std::optional<CompareOp> ExpressionParser::SkipComparison() {
  struct Symbol {
    std::string_view text;
    CompareOp op;
  };
  constexpr Symbol kSymbols[] = {
      {"==", CompareOp::kEq}, {"!=", CompareOp::kNe}, {"<", CompareOp::kLt},
      {"<=", CompareOp::kLe}, {">", CompareOp::kGt},  {">=", CompareOp::kGe}};
  for (const Symbol& symbol : kSymbols) {
    if (tokens_.SkipOperator(symbol.text)) return symbol.op;
  }
  if (tokens_.SkipName("in")) return CompareOp::kIn;
  const Token& second = tokens_.PeekSecond();
  if (tokens_.IsName("not") && second.kind == Token::Kind::kName &&
      second.text == "in") {
    tokens_.Next();
    tokens_.Next();
    return CompareOp::kNotIn;
  }
  return std::nullopt;
}

absl::StatusOr<ExprRef> ExpressionParser::ParseComparison() {
  const int line = Line();
  BOLE_ASSIGN_OR_RETURN(const ExprRef first, ParseSum());
  CompareExpr node = {.first = first, .rest = {}};
  while (const std::optional<CompareOp> op = SkipComparison()) {
    BOLE_ASSIGN_OR_RETURN(const ExprRef operand, ParseSum());
    node.rest.emplace_back(*op, operand);
  }
  return node.rest.empty() ? first : Add(std::move(node), line);
}

absl::StatusOr<ExprRef> ExpressionParser::ParseSum() {
  BOLE_ASSIGN_OR_RETURN(ExprRef left, ParseConcat());
  while (tokens_.IsOperator("+") || tokens_.IsOperator("-")) {
    const Token& token = tokens_.Next();
    const BinaryOp op =
        token.text == "+" ? BinaryOp::kAdd : BinaryOp::kSubtract;
    BOLE_ASSIGN_OR_RETURN(const ExprRef right, ParseConcat());
    left = Add(BinaryExpr{op, left, right}, token.line);
  }
  return left;
}

absl::StatusOr<ExprRef> ExpressionParser::ParseConcat() {
  BOLE_ASSIGN_OR_RETURN(ExprRef left, ParseProduct());
  while (tokens_.IsOperator("~")) {
    const int line = tokens_.Next().line;
    BOLE_ASSIGN_OR_RETURN(const ExprRef right, ParseProduct());
    left = Add(BinaryExpr{BinaryOp::kConcat, left, right}, line);
  }
  return left;
}

absl::StatusOr<ExprRef> ExpressionParser::ParseProduct() {
  struct Symbol {
    std::string_view text;
    BinaryOp op;
  };
  constexpr Symbol kSymbols[] = {{"*", BinaryOp::kMultiply},
                                 {"/", BinaryOp::kDivide},
                                 {"//", BinaryOp::kFloorDivide},
                                 {"%", BinaryOp::kModulo}};
  BOLE_ASSIGN_OR_RETURN(ExprRef left, ParseUnary(/*with_filters=*/true));
  while (true) {
    if (tokens_.IsOperator("**")) return tokens_.Unsupported("**");
    const Symbol* found = nullptr;
    for (const Symbol& symbol : kSymbols) {
      if (tokens_.IsOperator(symbol.text)) found = &symbol;
    }
    if (found == nullptr) return left;
    const int line = tokens_.Next().line;
    BOLE_ASSIGN_OR_RETURN(const ExprRef right,
                          ParseUnary(/*with_filters=*/true));
    left = Add(BinaryExpr{found->op, left, right}, line);
  }
}

absl::StatusOr<ExprRef> ExpressionParser::ParseUnary(bool with_filters) {
  const Nesting nesting(depth_);
  BOLE_RETURN_IF_ERROR(CheckDepth());
  ExprRef expr = nullptr;
  if (tokens_.IsOperator("-") || tokens_.IsOperator("+")) {
    const Token& token = tokens_.Next();
    const UnaryOp op = token.text == "-" ? UnaryOp::kMinus : UnaryOp::kPlus;
    BOLE_ASSIGN_OR_RETURN(const ExprRef operand,
                          ParseUnary(/*with_filters=*/false));
    expr = Add(UnaryExpr{op, operand}, token.line);
  } else {
    BOLE_ASSIGN_OR_RETURN(expr, ParsePrimary());
  }
  BOLE_ASSIGN_OR_RETURN(expr, ParsePostfix(expr));
  return with_filters ? ParseFiltersAndTests(expr) : expr;
}

}  // namespace bole::jinja
