// Parsing of expressions.
#ifndef BOLE_COMMON_CHAT_EXPRESSION_PARSER_H_
#define BOLE_COMMON_CHAT_EXPRESSION_PARSER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/chat/ast.h"
#include "common/chat/token_stream.h"

namespace bole::jinja {

// Parses expressions from a stream into the nodes of a template, with Jinja's
// precedence: a filter binds more tightly than any operator, then * / // %,
// then ~, then + -, comparisons, not, and, or, if-else.
//
// Errors carry the line. UNIMPLEMENTED names a feature of Jinja that this
// parser lacks.
class ExpressionParser {
 public:
  // Neither is owned. `depth` counts the nesting of all that is being parsed.
  ExpressionParser(TokenStream* tokens, Template* result, int* depth)
      : tokens_(*tokens), template_(*result), depth_(depth) {}

  absl::StatusOr<ExprRef> Parse();

  // An expression without if-else, as after `in` of a for tag, where an `if`
  // begins the filter.
  absl::StatusOr<ExprRef> ParseOr();

 private:
  using Result = absl::StatusOr<ExprRef>;

  Result ParseAnd();
  Result ParseNot();
  Result ParseComparison();
  Result ParseSum();
  Result ParseConcat();
  Result ParseProduct();
  Result ParseUnary(bool with_filters);
  Result ParsePrimary();
  Result ParseName();
  Result ParseNumber();
  Result ParseStrings();
  Result ParseParenthesized();
  Result ParseList();
  Result ParseDict();
  Result ParsePostfix(ExprRef operand);
  Result ParseFiltersAndTests(ExprRef operand);
  Result ParseFilter(ExprRef operand);
  Result ParseTest(ExprRef operand);
  Result ParseAttribute(ExprRef object);
  Result ParseSubscript(ExprRef object);
  Result ParseCall(ExprRef callee);
  absl::StatusOr<Arguments> ParseArguments();
  absl::Status ParseArgument(Arguments* arguments);
  // Items up to the closing bracket `close`, which is consumed.
  absl::StatusOr<std::vector<ExprRef>> ParseItems(std::string_view close);
  // The comparison operator at the current token, consumed if there is one.
  std::optional<CompareOp> SkipComparison();
  absl::Status CheckDepth() const;

  template <typename Node>
  ExprRef Add(Node node, int line) {
    template_.expressions.push_back(
        std::make_unique<const Expr>(Expr{std::move(node), line}));
    return template_.expressions.back().get();
  }
  int Line() const { return tokens_.Peek().line; }

  TokenStream& tokens_;
  Template& template_;
  int* depth_;
};

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_EXPRESSION_PARSER_H_
