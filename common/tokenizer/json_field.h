// Typed access to the members of a JSON object, with errors that name the
// member's place in the file and show its value.
#ifndef BOLE_COMMON_TOKENIZER_JSON_FIELD_H_
#define BOLE_COMMON_TOKENIZER_JSON_FIELD_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace bole {

// A value inside a document and where it is, such as "model.merges[3]". A
// member that is absent reads as null. Refers to the document.
class JsonField {
 public:
  JsonField(const nlohmann::json& value, std::string path)
      : value_(&value), path_(std::move(path)) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& path() const { return path_; }
  bool is_null() const;

  // REQUIRES: this is an object (Member) or an array (Element, index in range).
  JsonField Member(const char* name) const;
  JsonField Element(size_t index) const;

  // The value if it has the type, else INVALID_ARGUMENT.
  absl::StatusOr<JsonField> Object() const;
  absl::StatusOr<JsonField> Array() const;
  absl::StatusOr<std::string> String() const;
  absl::StatusOr<bool> Bool(bool if_null) const;
  // An integer in [0, limit).
  absl::StatusOr<int32_t> Index(int32_t limit) const;

  // "<path>: <problem>, but it is <value, cut to a line>".
  absl::Status Invalid(std::string_view problem) const;
  // "<path>: <value> is not supported".
  absl::Status Unsupported() const;

 private:
  std::string Shown() const;

  const nlohmann::json* value_;
  std::string path_;
};

}  // namespace bole

#endif  // BOLE_COMMON_TOKENIZER_JSON_FIELD_H_
