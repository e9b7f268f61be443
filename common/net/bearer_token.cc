#include "common/net/bearer_token.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {
namespace {

constexpr size_t kMaxFileBytes = 4096;

// gRPC ends the process over metadata that is no printable ASCII.
bool IsToken(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c > ' ' && c <= '~';
  });
}

absl::StatusOr<std::string> Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  const bool fits = text.size() < kMaxFileBytes;
  absl::StripAsciiWhitespace(&text);
  if (fits && IsToken(text)) return absl::StrCat("Bearer ", text);
  return absl::InvalidArgumentError(
      absl::StrCat(path, " cannot be read, or is no token"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<BearerToken>> BearerToken::Open(
    const std::string& path) {
  BOLE_ASSIGN_OR_RETURN(std::string authorization, Read(path));
  return std::unique_ptr<BearerToken>(
      new BearerToken(path, std::move(authorization)));
}

BearerToken::BearerToken(std::string path, std::string authorization)
    : path_(std::move(path)), authorization_(std::move(authorization)) {}

std::string BearerToken::Authorization() {
  absl::StatusOr<std::string> now = Read(path_);
  MutexLock lock(mutex_);
  if (now.ok()) authorization_ = *std::move(now);
  return authorization_;
}

}  // namespace bole
