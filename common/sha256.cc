#include "common/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "absl/strings/escaping.h"
#include "common/check.h"

namespace bole {
namespace {

constexpr size_t kDigestBytes = 32;

}  // namespace

std::string Sha256Hex(std::string_view bytes) {
  std::array<unsigned char, kDigestBytes> digest;
  unsigned int length = 0;
  const int ok = EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length,
                            EVP_sha256(), /*impl=*/nullptr);
  BOLE_CHECK(ok == 1 && length == digest.size());
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(digest.data()), digest.size()));
}

bool IsSha256Hex(std::string_view text) {
  return text.size() == 2 * kDigestBytes &&
         std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace bole
