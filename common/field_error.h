// Errors about a message of a peer: the field, its value, what is allowed.
//
// The field travels in a payload of the status, so that nobody has to parse the
// message.
#ifndef BOLE_COMMON_FIELD_ERROR_H_
#define BOLE_COMMON_FIELD_ERROR_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace bole {

inline constexpr char kFieldPayload[] = "bole/field";

// What an error is about: a field by its path, or a quantity of it.
struct FieldRef {
  // NOLINTBEGIN(google-explicit-constructor): most errors are about a field.
  FieldRef(std::string field) : path(std::move(field)), text(path) {}
  FieldRef(const char* field) : FieldRef(std::string(field)) {}
  // NOLINTEND(google-explicit-constructor)
  FieldRef(std::string path, std::string text)
      : path(std::move(path)), text(std::move(text)) {}

  std::string path;  // "sampling_params.stop"
  std::string text;  // "the number of sampling_params.stop"
};

inline FieldRef SizeOf(const std::string& path) {
  return {path, absl::StrCat("the size of ", path)};
}
inline FieldRef NumberOf(const std::string& path) {
  return {path, absl::StrCat("the number of ", path)};
}

// Returns `status`, which must not be OK, marked as an error about this field.
inline absl::Status AboutField(const std::string& path, absl::Status status) {
  status.SetPayload(kFieldPayload, absl::Cord(path));
  return status;
}

// The path of the field that an error is about, if it is about one.
inline std::optional<std::string> FieldOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kFieldPayload);
  if (!payload) return std::nullopt;
  return std::string(*payload);
}

// INVALID_ARGUMENT: "FIELD is VALUE; allowed is ALLOWED".
inline absl::Status BadField(const FieldRef& field, const absl::AlphaNum& value,
                             const absl::AlphaNum& allowed) {
  return AboutField(field.path,
                    absl::InvalidArgumentError(absl::StrCat(
                        field.text, " is ", value, "; allowed is ", allowed)));
}

// The same if a count or size is above `max`, else OK.
inline absl::Status CheckAtMost(const FieldRef& field, size_t value,
                                size_t max) {
  if (value <= max) return absl::OkStatus();
  return BadField(field, value, absl::StrCat("[0, ", max, "]"));
}

// UNIMPLEMENTED: "FIELD is not implemented".
inline absl::Status UnimplementedField(const std::string& path) {
  return AboutField(path, absl::UnimplementedError(
                              absl::StrCat(path, " is not implemented")));
}

// INVALID_ARGUMENT: "FIELD: " and the message of `status`, whatever its code:
// the client has to fix what a library rejects in its text. If `status` is
// itself about a field, that field is within FIELD.
inline absl::Status InField(const std::string& path,
                            const absl::Status& status) {
  const std::optional<std::string> inner = FieldOf(status);
  return AboutField(
      inner ? absl::StrCat(path, ".", *inner) : path,
      absl::InvalidArgumentError(absl::StrCat(path, ": ", status.message())));
}

// The start of a client's text, made safe for a message.
inline std::string Quoted(std::string_view text) {
  constexpr size_t kMaxBytes = 64;
  std::string out = "'";
  for (const char c : text.substr(0, kMaxBytes)) {
    out += c < ' ' || c > '~' ? '?' : c;
  }
  return out + (text.size() > kMaxBytes ? "...'" : "'");
}

}  // namespace bole

#endif  // BOLE_COMMON_FIELD_ERROR_H_
