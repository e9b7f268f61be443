// Which checkpoint a folder holds, in three digests.
#ifndef BOLE_COMMON_MODEL_FINGERPRINT_H_
#define BOLE_COMMON_MODEL_FINGERPRINT_H_

#include <string>

#include "absl/status/statusor.h"

namespace bole {

// SHA-256 as hexadecimal digits. A digest is empty if its file is not there,
// which says nothing about the model: compare those that both sides have.
struct ModelFingerprint {
  std::string config = {};     // config.json
  std::string tokenizer = {};  // tokenizer.json
  // model.safetensors.index.json, or else the JSON header of model.safetensors.
  // Covers names and places of tensors, not their values: two trainings of one
  // model may have the same digest.
  std::string weights = {};

  bool operator==(const ModelFingerprint&) const = default;
};

// Reads the files of the checkpoint's folder, never the weights themselves.
//
//   INVALID_ARGUMENT  a file is longer than 128 MiB, no regular file, or no
//                     safetensors file.
//   UNAVAILABLE       a file cannot be read.
absl::StatusOr<ModelFingerprint> FingerprintOf(const std::string& directory);

}  // namespace bole

#endif  // BOLE_COMMON_MODEL_FINGERPRINT_H_
