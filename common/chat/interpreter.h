// Runs parsed templates.
#ifndef BOLE_COMMON_CHAT_INTERPRETER_H_
#define BOLE_COMMON_CHAT_INTERPRETER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/chat/arguments.h"
#include "common/chat/ast.h"
#include "common/chat/budget.h"
#include "common/chat/value.h"

namespace bole::jinja {

// How deep statements, expressions and macro calls may be nested while they
// run, which bounds the stack.
inline constexpr int kMaxRunDepth = 400;

// One rendering of one template. Used once, by one thread.
class Interpreter {
 public:
  // Neither is owned. `context` holds the variables of the template.
  Interpreter(const Template& parsed, const Dict& context, Budget* budget);

  // The text of the template.
  //
  //   INVALID_ARGUMENT    raise_exception() was called: the message is what the
  //                       template gave. Or an operation on values that do not
  //                       have it; the message then starts with the line.
  //   UNIMPLEMENTED       a method or conversion that is not supported.
  //   RESOURCE_EXHAUSTED  the budget, or a bound on size or depth.
  absl::StatusOr<std::string> Render();

 private:
  // Variables, and the scope around them. A `for` body and a macro body have
  // scopes of their own, an `if` body has none.
  struct Scope {
    Scope* parent;
    absl::flat_hash_map<std::string, Value> variables;
  };

  // interpreter.cc
  absl::Status Execute(const Body& body);
  absl::Status ExecuteOne(const Statement& statement);
  absl::Status Run(const TextStatement& statement);
  absl::Status Run(const OutputStatement& statement);
  absl::Status Run(const IfStatement& statement);
  absl::Status Run(const ForStatement& statement);
  absl::Status Run(const SetStatement& statement);
  absl::Status Run(const MacroStatement& statement);
  absl::StatusOr<std::shared_ptr<const List>> ItemsToLoopOver(
      const ForStatement& statement);
  absl::Status RunIteration(const ForStatement& statement,
                            std::shared_ptr<const List> items, size_t index);
  absl::Status BindTargets(const ForStatement& statement, const Value& item);
  absl::StatusOr<Value> CallMacro(const Macro& macro,
                                  const CallArguments& arguments);
  absl::Status BindParameters(const Macro& macro,
                              const CallArguments& arguments);
  absl::Status Emit(const std::string& text);
  Value Lookup(const std::string& name) const;

  // interpreter_expressions.cc
  absl::StatusOr<Value> Eval(ExprRef expr);
  absl::StatusOr<Value> Eval(const LiteralExpr& expr);
  absl::StatusOr<Value> Eval(const NameExpr& expr);
  absl::StatusOr<Value> Eval(const AttributeExpr& expr);
  absl::StatusOr<Value> Eval(const ItemExpr& expr);
  absl::StatusOr<Value> Eval(const SliceExpr& expr);
  absl::StatusOr<Value> Eval(const CallExpr& expr);
  absl::StatusOr<Value> Eval(const FilterExpr& expr);
  absl::StatusOr<Value> Eval(const TestExpr& expr);
  absl::StatusOr<Value> Eval(const UnaryExpr& expr);
  absl::StatusOr<Value> Eval(const BinaryExpr& expr);
  absl::StatusOr<Value> Eval(const CompareExpr& expr);
  absl::StatusOr<Value> Eval(const ConditionalExpr& expr);
  absl::StatusOr<Value> Eval(const ListExpr& expr);
  absl::StatusOr<Value> Eval(const DictExpr& expr);
  absl::StatusOr<std::optional<int64_t>> EvalBound(ExprRef expr);
  absl::StatusOr<CallArguments> EvalArguments(const Arguments& arguments);
  absl::StatusOr<Value> Call(const Value& callee,
                             const CallArguments& arguments);
  absl::StatusOr<Value> CallFunction(Function function,
                                     const CallArguments& arguments);
  absl::StatusOr<Value> MakeNamespace(const CallArguments& arguments);
  absl::Status ChargeFor(const Value& value);

  const Template& template_;
  Budget& budget_;
  Scope root_;
  Scope* scope_ = &root_;
  std::string output_;
  std::string* out_ = &output_;  // Where statements write: a macro has its own.
  int depth_ = 0;
  std::vector<std::unique_ptr<Namespace>> namespaces_;

  std::optional<std::string> raised_;  // What raise_exception() was given.
  std::optional<int> error_line_;      // Line of the statement that failed.
};

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_INTERPRETER_H_
