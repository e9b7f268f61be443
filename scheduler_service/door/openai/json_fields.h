// Reads the members of a JSON object one by one, and checks their types.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_JSON_FIELDS_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_JSON_FIELDS_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "scheduler_service/door/messages/chat_codec.h"

namespace bole {

using OrderedJson = nlohmann::ordered_json;

// A tool is two levels deep in a body, and may nest as deep as over gRPC.
inline constexpr int kMaxBodyDepth = 2 + kMaxJsonDepth;

// Parses the object in a body; its members keep their order. INVALID_ARGUMENT:
// not JSON, not an object, deeper than kMaxBodyDepth, a key twice, or an object
// with more than 1024 members.
absl::StatusOr<OrderedJson> ParseBody(std::string_view body);

// INVALID_ARGUMENT: "PATH is VALUE; allowed is ALLOWED".
absl::Status WrongValue(const std::string& path, const OrderedJson& value,
                        std::string_view allowed);

// Reads one object. A member that is null counts as absent. The first error is
// kept, and after it everything is absent, so that a caller checks once, by
// Finish(), which also refuses members that nobody took.
class JsonFields {
 public:
  // `json` must outlive the reader; an error unless it is an object. `path` is
  // empty for the body itself.
  JsonFields(const OrderedJson& json, std::string path);

  std::string PathOf(std::string_view name) const;

  const OrderedJson* Take(const char* name);
  std::optional<bool> TakeBool(const char* name);
  std::optional<std::string> TakeString(const char* name);
  std::optional<float> TakeFloat(const char* name);
  std::optional<int64_t> TakeInteger(const char* name, int64_t min,
                                     int64_t max);
  std::optional<int32_t> TakeInt32(const char* name);
  std::optional<uint32_t> TakeUint32(const char* name);
  // An array, or null and an error.
  const OrderedJson* TakeArray(const char* name);

  // Takes members that cannot change the answer.
  void Ignore(std::initializer_list<const char*> names);
  // Refuses the member, unless it has one of these values, which are strings.
  void AllowOnly(const char* name,
                 std::initializer_list<const char*> values = {});
  // The same for a bool.
  void AllowOnly(const char* name, bool value);

  // Keeps the error unless there is one already.
  void Fail(absl::Status error);
  bool ok() const { return error_.ok(); }

  // OK, or the first error, or UNIMPLEMENTED for a member that was not taken.
  absl::Status Finish();

 private:
  const OrderedJson& json_;
  const std::string path_;
  std::set<std::string_view> taken_;
  absl::Status error_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_JSON_FIELDS_H_
