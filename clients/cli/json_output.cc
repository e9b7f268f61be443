#include "clients/cli/json_output.h"

#include "common/check.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"

namespace bole {

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  // Fails for well-known types alone, and no message here has one.
  BOLE_CHECK(
      google::protobuf::util::MessageToJsonString(message, &json, options)
          .ok());
  return json;
}

std::string JsonString(const std::string& text) {
  return nlohmann::json(text).dump(/*indent=*/-1, /*indent_char=*/' ',
                                   /*ensure_ascii=*/false,
                                   nlohmann::json::error_handler_t::replace);
}

}  // namespace bole
