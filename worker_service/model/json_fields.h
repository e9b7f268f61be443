// Typed, bounded reads of a JSON object's members.
#ifndef BOLE_WORKER_SERVICE_MODEL_JSON_FIELDS_H_
#define BOLE_WORKER_SERVICE_MODEL_JSON_FIELDS_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"

namespace bole {

// Both ends are allowed.
struct IntRange {
  int min;
  int max;
};
struct NumberRange {
  double min;
  double max;
};

// Reads members of one object and keeps the first error, so that a caller reads
// everything and checks status() once. A read that fails returns an allowed
// value: the fallback, or else the smallest.
//
// A member that is null counts as absent. One that is absent takes the
// fallback; without a fallback that is an error. A wrong type is an error even
// where a conversion exists (4.0 is not an integer). Errors are
// INVALID_ARGUMENT and read "path.key: found, expected what is allowed".
//
// Refers to the object, which must live longer. Not thread-safe.
class JsonFields {
 public:
  using Choices = std::initializer_list<std::string_view>;

  // `path` names the object in messages; empty for the root.
  // REQUIRES: object.is_object().
  JsonFields(const nlohmann::json& object, std::string path)
      : object_(object), path_(std::move(path)) {}

  bool Has(const char* key) const { return Member(key) != nullptr; }

  int Int(const char* key, IntRange range,
          std::optional<int> fallback = std::nullopt);
  double Number(const char* key, NumberRange range,
                std::optional<double> fallback = std::nullopt);
  bool Bool(const char* key, bool fallback);

  // A string that is one of `choices`; empty if absent.
  std::string OneOf(const char* key, Choices choices);
  // A list of such strings; empty if absent.
  std::vector<std::string> EachOneOf(const char* key, Choices choices);

  // One integer or a list of them; empty if absent.
  std::vector<int> IntOrInts(const char* key, IntRange range);

  // The object at `key`, or null if it is absent.
  const nlohmann::json* Object(const char* key);

  // Record an error if the member has an unsupported value: OnlyBool() for any
  // value but `only`, OnlyAbsent() for any value at all.
  void OnlyBool(const char* key, bool only);
  void OnlyAbsent(const char* key, std::string_view why);

  // Records "path.key: what" unless there is an error already.
  void Fail(const char* key, std::string_view what);

  // "path.key".
  std::string PathOf(const char* key) const;

  const absl::Status& status() const { return status_; }

 private:
  // Null if absent or null.
  const nlohmann::json* Member(const char* key) const;
  void FailExpected(const char* key, const nlohmann::json& found,
                    std::string_view expected);
  int ReadInt(const char* key, const nlohmann::json& value, IntRange range);
  std::string ReadChoice(const char* key, const nlohmann::json& value,
                         Choices choices);

  const nlohmann::json& object_;
  const std::string path_;
  absl::Status status_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_JSON_FIELDS_H_
