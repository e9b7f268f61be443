#include "common/model_fingerprint.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "common/tokenizer/read_file.h"

namespace bole {
namespace {

constexpr uint64_t kMaxHashedBytes = 128 << 20;

static_assert(std::endian::native == std::endian::little,
              "safetensors files begin with a little-endian length");

// Empty if there is no such file.
absl::StatusOr<std::string> DigestOfFile(const std::string& path) {
  absl::StatusOr<std::string> bytes = ReadFile(path, kMaxHashedBytes);
  if (absl::IsNotFound(bytes.status())) return std::string();
  if (!bytes.ok()) return bytes.status();
  return Sha256Hex(*bytes);
}

// The same of a safetensors file's JSON, which follows its length.
absl::StatusOr<std::string> DigestOfHeader(const std::string& path) {
  if (!std::filesystem::exists(path)) return std::string();
  std::ifstream file(path, std::ios::binary);
  uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof(length));
  if (!file) {
    return absl::UnavailableError(
        absl::StrCat(path, ": the header's length cannot be read"));
  }
  if (length > kMaxHashedBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the header's length is ", length,
                     "; the limit is ", kMaxHashedBytes));
  }
  std::string header(length, '\0');
  file.read(header.data(), static_cast<std::streamsize>(length));
  if (!file) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": the file ends before its header of ", length, " bytes"));
  }
  return Sha256Hex(header);
}

}  // namespace

absl::StatusOr<ModelFingerprint> FingerprintOf(const std::string& directory) {
  const std::filesystem::path folder(directory);
  ModelFingerprint fingerprint;
  BOLE_ASSIGN_OR_RETURN(fingerprint.config,
                        DigestOfFile(folder / "config.json"));
  BOLE_ASSIGN_OR_RETURN(fingerprint.tokenizer,
                        DigestOfFile(folder / "tokenizer.json"));
  BOLE_ASSIGN_OR_RETURN(fingerprint.weights,
                        DigestOfFile(folder / "model.safetensors.index.json"));
  if (fingerprint.weights.empty()) {
    BOLE_ASSIGN_OR_RETURN(fingerprint.weights,
                          DigestOfHeader(folder / "model.safetensors"));
  }
  return fingerprint;
}

}  // namespace bole
