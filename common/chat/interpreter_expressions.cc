// The second half of Interpreter: expressions.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/chat/access.h"
#include "common/chat/arithmetic.h"
#include "common/chat/comparison.h"
#include "common/chat/interpreter.h"
#include "common/chat/methods.h"
#include "common/chat/python_format.h"
#include "common/chat/token_stream.h"
#include "common/status_macros.h"

namespace bole::jinja {

absl::StatusOr<Value> Interpreter::Eval(ExprRef expr) {
  const Nesting nesting(&depth_);
  if (depth_ > kMaxRunDepth) {
    return absl::ResourceExhaustedError("the template nests too deep");
  }
  BOLE_RETURN_IF_ERROR(budget_.Charge(1));
  return std::visit([this](const auto& node) { return Eval(node); },
                    expr->node);
}

// Operations take time in proportion to their operands and results.
absl::Status Interpreter::ChargeFor(const Value& value) {
  return budget_.ChargeBytes(value.ShallowBytes());
}

absl::StatusOr<Value> Interpreter::Eval(const LiteralExpr& expr) {
  return expr.value;
}

absl::StatusOr<Value> Interpreter::Eval(const NameExpr& expr) {
  return Lookup(expr.name);
}

absl::StatusOr<Value> Interpreter::Eval(const AttributeExpr& expr) {
  BOLE_ASSIGN_OR_RETURN(const Value object, Eval(expr.object));
  return GetAttribute(object, expr.name);
}

absl::StatusOr<Value> Interpreter::Eval(const ItemExpr& expr) {
  BOLE_ASSIGN_OR_RETURN(const Value object, Eval(expr.object));
  BOLE_ASSIGN_OR_RETURN(const Value key, Eval(expr.key));
  if (object.AsString() != nullptr) BOLE_RETURN_IF_ERROR(ChargeFor(object));
  return GetItem(object, key);
}

absl::StatusOr<std::optional<int64_t>> Interpreter::EvalBound(ExprRef expr) {
  if (expr == nullptr) return std::nullopt;
  BOLE_ASSIGN_OR_RETURN(const Value value, Eval(expr));
  if (value.Is<None>()) return std::nullopt;
  if (value.Is<int64_t>() || value.Is<bool>()) return value.IntOr(0);
  return absl::InvalidArgumentError(
      absl::StrCat("slice bounds must be integers, not '",
                   std::string(value.TypeName()), "'"));
}

absl::StatusOr<Value> Interpreter::Eval(const SliceExpr& expr) {
  BOLE_ASSIGN_OR_RETURN(const Value object, Eval(expr.object));
  SliceBounds bounds;
  BOLE_ASSIGN_OR_RETURN(bounds.start, EvalBound(expr.start));
  BOLE_ASSIGN_OR_RETURN(bounds.stop, EvalBound(expr.stop));
  BOLE_ASSIGN_OR_RETURN(bounds.step, EvalBound(expr.step));
  BOLE_RETURN_IF_ERROR(ChargeFor(object));
  return GetSlice(object, bounds);
}

absl::StatusOr<CallArguments> Interpreter::EvalArguments(
    const Arguments& arguments) {
  CallArguments values;
  for (const ExprRef argument : arguments.positional) {
    BOLE_ASSIGN_OR_RETURN(Value value, Eval(argument));
    values.positional.push_back(std::move(value));
  }
  for (const auto& [name, argument] : arguments.named) {
    BOLE_ASSIGN_OR_RETURN(Value value, Eval(argument));
    values.named.emplace_back(name, std::move(value));
  }
  return values;
}

absl::StatusOr<Value> Interpreter::Eval(const CallExpr& expr) {
  BOLE_ASSIGN_OR_RETURN(const Value callee, Eval(expr.callee));
  BOLE_ASSIGN_OR_RETURN(const CallArguments arguments,
                        EvalArguments(expr.arguments));
  return Call(callee, arguments);
}

absl::StatusOr<Value> Interpreter::Call(const Value& callee,
                                        const CallArguments& arguments) {
  if (const auto* function = std::get_if<Function>(&callee.variant())) {
    return CallFunction(*function, arguments);
  }
  if (const auto* macro = std::get_if<const Macro*>(&callee.variant())) {
    return CallMacro(**macro, arguments);
  }
  if (const auto* method =
          std::get_if<std::shared_ptr<const Method>>(&callee.variant())) {
    BOLE_RETURN_IF_ERROR(ChargeFor((*method)->receiver));
    BOLE_ASSIGN_OR_RETURN(const Value result, CallMethod(**method, arguments));
    BOLE_RETURN_IF_ERROR(ChargeFor(result));
    return result;
  }
  if (const auto* undefined = std::get_if<Undefined>(&callee.variant())) {
    return absl::InvalidArgumentError(*undefined->why);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", std::string(callee.TypeName()), "' is not callable"));
}

absl::StatusOr<Value> Interpreter::CallFunction(
    Function function, const CallArguments& arguments) {
  if (function == Function::kNamespace) return MakeNamespace(arguments);
  constexpr std::string_view kParameters[] = {"message"};
  BOLE_ASSIGN_OR_RETURN(
      const auto bound,
      BindArguments("raise_exception", kParameters, arguments));
  BOLE_ASSIGN_OR_RETURN(raised_, ToStr(bound[0].value_or(Value()), &budget_));
  return absl::InvalidArgumentError(*raised_);
}

absl::StatusOr<Value> Interpreter::MakeNamespace(
    const CallArguments& arguments) {
  // Namespaces live as long as the rendering.
  BOLE_RETURN_IF_ERROR(budget_.ChargeBytes(sizeof(Namespace)));
  auto space = std::make_unique<Namespace>();
  for (const Value& argument : arguments.positional) {
    const Dict* dict = argument.AsDict();
    if (dict == nullptr || arguments.positional.size() > 1) {
      return absl::InvalidArgumentError(
          "namespace() takes one mapping and named arguments");
    }
    BOLE_RETURN_IF_ERROR(ChargeFor(argument));
    for (const auto& [name, value] : dict->items) space->members[name] = value;
  }
  for (const auto& [name, value] : arguments.named) {
    space->members[name] = value;
  }
  namespaces_.push_back(std::move(space));
  return Value(namespaces_.back().get());
}

absl::StatusOr<Value> Interpreter::Eval(const FilterExpr& expr) {
  BOLE_ASSIGN_OR_RETURN(const Value operand, Eval(expr.operand));
  BOLE_ASSIGN_OR_RETURN(const CallArguments arguments,
                        EvalArguments(expr.arguments));
  // The length of a list is known, and asked for in loops over it.
  if (expr.filter != Filter::kLength || operand.AsString() != nullptr) {
    BOLE_RETURN_IF_ERROR(ChargeFor(operand));
  }
  BOLE_ASSIGN_OR_RETURN(const Value result,
                        ApplyFilter(expr.filter, operand, arguments, &budget_));
  BOLE_RETURN_IF_ERROR(ChargeFor(result));
  return result;
}

absl::StatusOr<Value> Interpreter::Eval(const TestExpr& expr) {
  BOLE_ASSIGN_OR_RETURN(const Value operand, Eval(expr.operand));
  return Value::Bool(Passes(expr.test, operand) != expr.is_negated);
}

absl::StatusOr<Value> Interpreter::Eval(const UnaryExpr& expr) {
  BOLE_ASSIGN_OR_RETURN(const Value operand, Eval(expr.operand));
  if (expr.op == UnaryOp::kNot) return Value::Bool(!operand.Truthy());
  if (operand.Is<double>() && expr.op == UnaryOp::kMinus) {
    return Value::Float(-std::get<double>(operand.variant()));
  }
  return Arithmetic(
      expr.op == UnaryOp::kMinus ? BinaryOp::kSubtract : BinaryOp::kAdd,
      Value::Int(0), operand);
}

absl::StatusOr<Value> Interpreter::Eval(const BinaryExpr& expr) {
  BOLE_ASSIGN_OR_RETURN(const Value left, Eval(expr.left));
  if (expr.op == BinaryOp::kAnd && !left.Truthy()) return left;
  if (expr.op == BinaryOp::kOr && left.Truthy()) return left;
  BOLE_ASSIGN_OR_RETURN(const Value right, Eval(expr.right));
  if (expr.op == BinaryOp::kAnd || expr.op == BinaryOp::kOr) return right;
  if (expr.op != BinaryOp::kConcat) {
    BOLE_ASSIGN_OR_RETURN(const Value result, Arithmetic(expr.op, left, right));
    BOLE_RETURN_IF_ERROR(ChargeFor(result));
    return result;
  }
  BOLE_ASSIGN_OR_RETURN(std::string left_text, ToStr(left, &budget_));
  BOLE_ASSIGN_OR_RETURN(std::string right_text, ToStr(right, &budget_));
  BOLE_RETURN_IF_ERROR(
      budget_.ChargeBytes(left_text.size() + right_text.size()));
  return Arithmetic(BinaryOp::kAdd, Value::Str(std::move(left_text)),
                    Value::Str(std::move(right_text)));
}

absl::StatusOr<Value> Interpreter::Eval(const CompareExpr& expr) {
  BOLE_ASSIGN_OR_RETURN(Value left, Eval(expr.first));
  for (const auto& [op, operand] : expr.rest) {
    BOLE_ASSIGN_OR_RETURN(Value right, Eval(operand));
    BOLE_ASSIGN_OR_RETURN(const bool holds, Compare(op, left, right, &budget_));
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

absl::StatusOr<Value> Interpreter::Eval(const ConditionalExpr& expr) {
  BOLE_ASSIGN_OR_RETURN(const Value condition, Eval(expr.condition));
  if (condition.Truthy()) return Eval(expr.if_true);
  if (expr.if_false != nullptr) return Eval(expr.if_false);
  return Value::MakeUndefined("an if-expression without else was false");
}

absl::StatusOr<Value> Interpreter::Eval(const ListExpr& expr) {
  std::vector<Value> items;
  for (const ExprRef item : expr.items) {
    BOLE_ASSIGN_OR_RETURN(Value value, Eval(item));
    items.push_back(std::move(value));
  }
  return Value::MakeList(std::move(items), expr.is_tuple);
}

absl::StatusOr<Value> Interpreter::Eval(const DictExpr& expr) {
  std::vector<std::pair<std::string, Value>> items;
  for (const auto& [key_expr, value_expr] : expr.items) {
    BOLE_ASSIGN_OR_RETURN(const Value key, Eval(key_expr));
    BOLE_ASSIGN_OR_RETURN(Value value, Eval(value_expr));
    const std::string* name = key.AsString();
    if (name == nullptr) {
      return absl::UnimplementedError(absl::StrCat("keys of type '",
                                                   std::string(key.TypeName()),
                                                   "' are not supported"));
    }
    items.emplace_back(*name, std::move(value));
  }
  return Value::MakeDict(std::move(items));
}

}  // namespace bole::jinja
