// Messages as JSON, for programs that read what `bole` prints.
#ifndef BOLE_CLIENTS_CLI_JSON_OUTPUT_H_
#define BOLE_CLIENTS_CLI_JSON_OUTPUT_H_

#include <string>

#include "google/protobuf/message.h"

namespace bole {

// `message` in protobuf's JSON form, on one line, with the field names of the
// .proto file. Zeros and empty lists are there; absent optional fields are not.
// 64-bit numbers are strings, because JSON readers round them.
std::string ToJson(const google::protobuf::Message& message);

// `text`, any bytes, as a JSON string with its quotes. Invalid UTF-8 becomes
// U+FFFD.
std::string JsonString(const std::string& text);

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_JSON_OUTPUT_H_
