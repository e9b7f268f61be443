// Statements. Expressions are in interpreter_expressions.cc.
#include "common/chat/interpreter.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/chat/access.h"
#include "common/chat/python_format.h"
#include "common/chat/token_stream.h"
#include "common/status_macros.h"

namespace bole::jinja {

Interpreter::Interpreter(const Template& parsed, const Dict& context,
                         Budget* budget)
    : template_(parsed),
      budget_(*budget),
      root_{.parent = nullptr, .variables = {}} {
  root_.variables["namespace"] = Value(Function::kNamespace);
  root_.variables["raise_exception"] = Value(Function::kRaiseException);
  for (const auto& [name, value] : context.items) {
    root_.variables[name] = value;
  }
}

absl::StatusOr<std::string> Interpreter::Render() {
  const absl::Status status = Execute(template_.body);
  if (status.ok()) return std::move(output_);
  if (raised_) return absl::InvalidArgumentError(*raised_);
  return absl::Status(
      status.code(),
      absl::StrCat("line ", error_line_.value_or(0), ": ", status.message()));
}

absl::Status Interpreter::Execute(const Body& body) {
  const Nesting nesting(&depth_);
  if (depth_ > kMaxRunDepth) {
    return absl::ResourceExhaustedError("the template nests too deep");
  }
  for (const Statement& statement : body) {
    absl::Status status = ExecuteOne(statement);
    if (status.ok()) continue;
    if (!error_line_) error_line_ = statement.line;
    return status;
  }
  return absl::OkStatus();
}

absl::Status Interpreter::ExecuteOne(const Statement& statement) {
  BOLE_RETURN_IF_ERROR(budget_.Charge(1));
  return std::visit([this](const auto& node) { return Run(node); },
                    statement.node);
}

absl::Status Interpreter::Emit(const std::string& text) {
  if (out_->size() + text.size() > kMaxStringBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMaxStringBytes, " bytes of output"));
  }
  *out_ += text;
  return budget_.ChargeBytes(text.size());
}

absl::Status Interpreter::Run(const TextStatement& statement) {
  return Emit(statement.text);
}

absl::Status Interpreter::Run(const OutputStatement& statement) {
  BOLE_ASSIGN_OR_RETURN(const Value value, Eval(statement.value));
  if (const std::string* text = value.AsString()) return Emit(*text);
  BOLE_ASSIGN_OR_RETURN(const std::string text, ToStr(value, &budget_));
  return Emit(text);
}

absl::Status Interpreter::Run(const IfStatement& statement) {
  for (const auto& [condition, body] : statement.branches) {
    if (condition == nullptr) return Execute(body);
    BOLE_ASSIGN_OR_RETURN(const Value value, Eval(condition));
    if (value.Truthy()) return Execute(body);
  }
  return absl::OkStatus();
}

absl::Status Interpreter::Run(const ForStatement& statement) {
  BOLE_ASSIGN_OR_RETURN(const auto items, ItemsToLoopOver(statement));
  for (size_t i = 0; i < items->items.size(); ++i) {
    BOLE_RETURN_IF_ERROR(RunIteration(statement, items, i));
  }
  if (!items->items.empty()) return absl::OkStatus();
  Scope scope = {.parent = scope_, .variables = {}};
  scope_ = &scope;
  BOLE_RETURN_IF_ERROR(Execute(statement.otherwise));
  scope_ = scope.parent;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const List>> Interpreter::ItemsToLoopOver(
    const ForStatement& statement) {
  BOLE_ASSIGN_OR_RETURN(const Value iterable, Eval(statement.iterable));
  BOLE_RETURN_IF_ERROR(ChargeFor(iterable));
  BOLE_ASSIGN_OR_RETURN(std::shared_ptr<const List> items, Iterate(iterable));
  if (statement.filter == nullptr) return items;
  std::vector<Value> kept;
  for (const Value& item : items->items) {
    Scope scope = {.parent = scope_, .variables = {}};
    scope_ = &scope;
    BOLE_RETURN_IF_ERROR(BindTargets(statement, item));
    BOLE_ASSIGN_OR_RETURN(const Value keeps, Eval(statement.filter));
    scope_ = scope.parent;
    if (keeps.Truthy()) kept.push_back(item);
  }
  return std::make_shared<const List>(
      List{.items = std::move(kept), .depth = items->depth});
}

absl::Status Interpreter::RunIteration(const ForStatement& statement,
                                       std::shared_ptr<const List> items,
                                       size_t index) {
  Scope scope = {.parent = scope_, .variables = {}};
  scope_ = &scope;
  BOLE_RETURN_IF_ERROR(BindTargets(statement, items->items[index]));
  scope.variables["loop"] = Value(std::make_shared<const Loop>(
      Loop{.items = std::move(items), .index0 = index}));
  BOLE_RETURN_IF_ERROR(Execute(statement.body));
  scope_ = scope.parent;
  return budget_.Charge(1);
}

absl::Status Interpreter::BindTargets(const ForStatement& statement,
                                      const Value& item) {
  const std::vector<std::string>& targets = statement.targets;
  if (targets.size() == 1) {
    scope_->variables[targets[0]] = item;
    return absl::OkStatus();
  }
  BOLE_ASSIGN_OR_RETURN(const auto parts, Iterate(item));
  if (parts->items.size() != targets.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot unpack ", parts->items.size(), " values into ",
                     targets.size(), " names"));
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    scope_->variables[targets[i]] = parts->items[i];
  }
  return absl::OkStatus();
}

absl::Status Interpreter::Run(const SetStatement& statement) {
  BOLE_ASSIGN_OR_RETURN(Value value, Eval(statement.value));
  if (!statement.attribute) {
    scope_->variables[statement.name] = std::move(value);
    return absl::OkStatus();
  }
  const Value target = Lookup(statement.name);
  Namespace* const* space = std::get_if<Namespace*>(&target.variant());
  if (space == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot set an attribute of '", statement.name,
                     "', which is no namespace"));
  }
  (*space)->members[*statement.attribute] = std::move(value);
  return absl::OkStatus();
}

absl::Status Interpreter::Run(const MacroStatement& statement) {
  scope_->variables[statement.macro->name] = Value(statement.macro.get());
  return absl::OkStatus();
}

absl::StatusOr<Value> Interpreter::CallMacro(const Macro& macro,
                                             const CallArguments& arguments) {
  Scope scope = {.parent = &root_, .variables = {}};
  Scope* const caller_scope = std::exchange(scope_, &scope);
  std::string text;
  std::string* const caller_out = std::exchange(out_, &text);
  BOLE_RETURN_IF_ERROR(BindParameters(macro, arguments));
  BOLE_RETURN_IF_ERROR(Execute(macro.body));
  scope_ = caller_scope;
  out_ = caller_out;
  return Value::Str(std::move(text));
}

absl::Status Interpreter::BindParameters(const Macro& macro,
                                         const CallArguments& arguments) {
  std::vector<std::string_view> names;
  for (const auto& parameter : macro.parameters) {
    names.push_back(parameter.first);
  }
  BOLE_ASSIGN_OR_RETURN(const std::vector<std::optional<Value>> bound,
                        BindArguments(macro.name, names, arguments));
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& [name, default_value] = macro.parameters[i];
    if (bound[i]) {
      scope_->variables[name] = *bound[i];
    } else if (default_value != nullptr) {
      BOLE_ASSIGN_OR_RETURN(Value value, Eval(default_value));
      scope_->variables[name] = std::move(value);
    } else {
      scope_->variables[name] = Value::MakeUndefined(
          absl::StrCat("parameter '", name, "' was not provided"));
    }
  }
  return absl::OkStatus();
}

Value Interpreter::Lookup(const std::string& name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    const auto variable = scope->variables.find(name);
    if (variable != scope->variables.end()) return variable->second;
  }
  return Value::MakeUndefined(absl::StrCat("'", name, "' is undefined"));
}

}  // namespace bole::jinja
