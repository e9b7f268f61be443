// Errors about a message of a peer: the field, its value, what is allowed.
#ifndef BOLE_COMMON_FIELD_ERROR_H_
#define BOLE_COMMON_FIELD_ERROR_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace bole {

// INVALID_ARGUMENT: "FIELD is VALUE; allowed is ALLOWED".
inline absl::Status BadField(const absl::AlphaNum& field,
                             const absl::AlphaNum& value,
                             const absl::AlphaNum& allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; allowed is ", allowed));
}

// The same if a count or size is above `max`, else OK.
inline absl::Status CheckAtMost(const absl::AlphaNum& field, size_t value,
                                size_t max) {
  if (value <= max) return absl::OkStatus();
  return BadField(field, value, absl::StrCat("[0, ", max, "]"));
}

// INVALID_ARGUMENT: "FIELD: " and the message of `status`, whatever its code:
// what a library thinks of a client's text is the client's to mend.
inline absl::Status InField(const absl::AlphaNum& field,
                            const absl::Status& status) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", status.message()));
}

// The start of a client's text, fit to stand in a message.
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
