// The syntax tree of a template.
#ifndef BOLE_COMMON_CHAT_AST_H_
#define BOLE_COMMON_CHAT_AST_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/chat/filters.h"
#include "common/chat/value.h"
#include "common/chat/value_tests.h"

namespace bole::jinja {

struct Expr;

// The Template (below) owns the nodes; these pointers only refer to them.
using ExprRef = const Expr*;

struct Arguments {
  std::vector<ExprRef> positional;
  std::vector<std::pair<std::string, ExprRef>> named;
};

struct LiteralExpr {
  Value value;
};
struct NameExpr {
  std::string name;
};
struct AttributeExpr {  // object.name
  ExprRef object;
  std::string name;
};
struct ItemExpr {  // object[key]
  ExprRef object;
  ExprRef key;
};
struct SliceExpr {  // object[start:stop:step], each null if left out
  ExprRef object;
  ExprRef start;
  ExprRef stop;
  ExprRef step;
};
struct CallExpr {
  ExprRef callee;
  Arguments arguments;
};
struct FilterExpr {  // operand | filter(arguments)
  ExprRef operand;
  Filter filter;
  Arguments arguments;
};
struct TestExpr {  // operand is [not] test
  ExprRef operand;
  ValueTest test;
  bool is_negated;
};
enum class UnaryOp { kNot, kMinus, kPlus };
struct UnaryExpr {
  UnaryOp op;
  ExprRef operand;
};
enum class BinaryOp {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kConcat,  // ~
  kAnd,
  kOr,
};
struct BinaryExpr {
  BinaryOp op;
  ExprRef left;
  ExprRef right;
};
enum class CompareOp { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };
struct CompareExpr {  // first op operand op operand ..., as in Python
  ExprRef first;
  std::vector<std::pair<CompareOp, ExprRef>> rest;
};
struct ConditionalExpr {  // if_true if condition else if_false
  ExprRef condition;
  ExprRef if_true;
  ExprRef if_false;  // Null if left out.
};
struct ListExpr {
  std::vector<ExprRef> items;
  bool is_tuple;
};
struct DictExpr {
  std::vector<std::pair<ExprRef, ExprRef>> items;
};

struct Expr {
  std::variant<LiteralExpr, NameExpr, AttributeExpr, ItemExpr, SliceExpr,
               CallExpr, FilterExpr, TestExpr, UnaryExpr, BinaryExpr,
               CompareExpr, ConditionalExpr, ListExpr, DictExpr>
      node;
  int line;
};

struct Statement;
using Body = std::vector<Statement>;

struct TextStatement {
  std::string text;
};
struct OutputStatement {
  ExprRef value;
};
struct IfStatement {  // Runs the first branch that holds; null is else.
  std::vector<std::pair<ExprRef, Body>> branches;
};
struct ForStatement {
  std::vector<std::string> targets;
  ExprRef iterable;
  ExprRef filter;  // Null if there is none.
  Body body;
  Body otherwise;  // Runs if there are no items.
};
struct SetStatement {
  std::string name;
  std::optional<std::string> attribute;  // Attribute of the namespace `name`.
  ExprRef value;
};

// A macro and its definition. A parameter without a default has null there.
struct Macro {
  std::string name;
  std::vector<std::pair<std::string, ExprRef>> parameters;
  Body body;
};
struct MacroStatement {
  std::unique_ptr<const Macro> macro;
};

struct Statement {
  std::variant<TextStatement, OutputStatement, IfStatement, ForStatement,
               SetStatement, MacroStatement>
      node;
  int line;
};

// A parsed template. Owns every node; immutable.
struct Template {
  std::vector<std::unique_ptr<const Expr>> expressions;
  Body body;
};

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_AST_H_
