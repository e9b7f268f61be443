// The values that a template computes with, modelled on Python's.
#ifndef BOLE_COMMON_CHAT_VALUE_H_
#define BOLE_COMMON_CHAT_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace bole::jinja {

struct Dict;
struct List;
struct Loop;
struct Macro;  // A statement, ast.h.
struct Method;
struct Namespace;
class Value;

// What a name or attribute that does not exist evaluates to. `why` says which,
// such as "'tools' is undefined".
struct Undefined {
  std::shared_ptr<const std::string> why;
};

struct None {};

// An integer above the range of int64. It can be shown and compared only.
struct BigUnsigned {
  uint64_t value;
};

// A function that every template can call.
enum class Function { kNamespace, kRaiseException };

// A value. Strings, lists and objects never change and are shared by all the
// values that hold them, so copies are cheap. Strings are valid UTF-8.
//
// Namespaces and macros are not owned: namespaces belong to the rendering,
// macros to the template.
class Value {
 public:
  using String = std::shared_ptr<const std::string>;
  using Variant =
      std::variant<Undefined, None, bool, int64_t, BigUnsigned, double, String,
                   std::shared_ptr<const List>, std::shared_ptr<const Dict>,
                   std::shared_ptr<const Loop>, std::shared_ptr<const Method>,
                   Namespace*, const Macro*, Function>;

  Value() : variant_(None{}) {}
  explicit Value(Variant variant) : variant_(std::move(variant)) {}

  static Value Bool(bool value) { return Value(Variant(value)); }
  static Value Int(int64_t value) { return Value(Variant(value)); }
  static Value Float(double value) { return Value(Variant(value)); }
  static Value Str(std::string text) {
    return Value(Variant(std::make_shared<const std::string>(std::move(text))));
  }
  static Value MakeUndefined(std::string why) {
    return Value(
        Undefined{std::make_shared<const std::string>(std::move(why))});
  }

  // Make a list (with `is_tuple` a tuple) and an object. RESOURCE_EXHAUSTED if
  // it is too long or too deep (budget.h). Of equal keys the last counts.
  static absl::StatusOr<Value> MakeList(std::vector<Value> items,
                                        bool is_tuple = false);
  static absl::StatusOr<Value> MakeDict(
      std::vector<std::pair<std::string, Value>> items);

  // The value of a JSON document. Invalid UTF-8 in strings becomes U+FFFD.
  // INVALID_ARGUMENT if it is nested deeper than kMaxValueDepth.
  static absl::StatusOr<Value> FromJson(const nlohmann::ordered_json& json);

  const Variant& variant() const { return variant_; }

  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(variant_);
  }

  // The value if it has the type, else null.
  const std::string* AsString() const;
  const List* AsList() const;
  const Dict* AsDict() const;
  const Loop* AsLoop() const;

  // The value of an int or bool, or the value given.
  int64_t IntOr(int64_t other) const;

  // Whether it counts as true in a condition.
  bool Truthy() const;

  // The name of its type in messages: "str", "list", "NoneType".
  std::string_view TypeName() const;

  // How many bytes it holds itself, without what its items hold.
  size_t ShallowBytes() const;

  // How many containers it is nested in itself: 0 for a string.
  int Depth() const;

 private:
  Variant variant_;
};

struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  int depth = 1;
};

// Members in order of insertion, and their positions by key.
struct Dict {
  std::vector<std::pair<std::string, Value>> items;
  absl::flat_hash_map<std::string, size_t> index;
  int depth = 1;

  // Null if there is no such key.
  const Value* Find(std::string_view key) const;
};

// A bound method, such as the `startswith` of a string.
struct Method {
  Value receiver;
  std::string name;
};

// The `loop` of one iteration. `items` is what is iterated over.
struct Loop {
  std::shared_ptr<const List> items;
  size_t index0 = 0;
};

// The one kind of value that changes: `set ns.name = value`.
struct Namespace {
  absl::flat_hash_map<std::string, Value> members;
};

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_VALUE_H_
