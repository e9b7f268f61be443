// What the codecs of plans and of results share.
#ifndef BOLE_PROTO_CODEC_PARTS_H_
#define BOLE_PROTO_CODEC_PARTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/packed_forest.h"
#include "common/status_macros.h"
#include "google/protobuf/repeated_field.h"
#include "proto/step_codec.h"
#include "proto/worker.pb.h"

namespace bole::codec {

// INVALID_ARGUMENT, as all errors here. `who` is the part of the message:
// "sequence 3".
absl::Status Error(const std::string& who, const std::string& what);
absl::Status CheckAtMost(const std::string& who, const char* what,
                         int64_t count, int64_t limit);
absl::Status CheckSameLength(const std::string& who, const char* a, int size_a,
                             const char* b, int size_b);
absl::Status CheckInRange(const std::string& who, const char* field,
                          int64_t value, int64_t low, int64_t high);

template <typename Repeated, typename T>
void EncodeArray(const std::vector<T>& values, Repeated* array) {
  array->Add(values.begin(), values.end());
}

template <typename Repeated>
auto DecodeArray(const Repeated& array) {
  return std::vector<typename Repeated::value_type>(array.begin(), array.end());
}

// Decodes every message of an array with `decode(message, name of it)`.
template <typename Value, typename Message, typename Decode>
absl::StatusOr<std::vector<Value>> DecodeAll(
    const google::protobuf::RepeatedPtrField<Message>& messages,
    const char* name, Decode decode) {
  BOLE_RETURN_IF_ERROR(
      CheckAtMost(name, "of them", messages.size(), kMaxCodedSequences));
  std::vector<Value> values;
  values.reserve(messages.size());
  for (int i = 0; i < messages.size(); ++i) {
    BOLE_ASSIGN_OR_RETURN(Value value,
                          decode(messages[i], absl::StrCat(name, " ", i)));
    values.push_back(std::move(value));
  }
  return values;
}

// A forest without requests leaves the message as it is.
void EncodeForest(const PackedForest& forest, worker::v1::Forest& message);
absl::StatusOr<PackedForest> DecodeForest(const worker::v1::Forest& message);

}  // namespace bole::codec

#endif  // BOLE_PROTO_CODEC_PARTS_H_
