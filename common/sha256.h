// SHA-256.
#ifndef BOLE_COMMON_SHA256_H_
#define BOLE_COMMON_SHA256_H_

#include <string>
#include <string_view>

namespace bole {

// The digest of `bytes` as 64 lower-case hexadecimal digits. O(bytes).
std::string Sha256Hex(std::string_view bytes);

// Whether `text` could be such a digest.
bool IsSha256Hex(std::string_view text);

}  // namespace bole

#endif  // BOLE_COMMON_SHA256_H_
