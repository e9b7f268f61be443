// Templates and conversations that the tests of this folder share.
#ifndef BOLE_TESTS_COMMON_CHAT_TEMPLATE_CASES_H_
#define BOLE_TESTS_COMMON_CHAT_TEMPLATE_CASES_H_

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "common/chat/chat_template.h"
#include "nlohmann/json.hpp"

namespace bole::testing {

using Json = nlohmann::ordered_json;

// Templates of our own: {name, template, context, expected or fails: true}.
inline constexpr char kCases[] = "tests/common/chat/cases.json";

// Contexts for the templates of checkpoints: {name, context}.
inline constexpr char kConversations[] = "tests/common/chat/conversations.json";

// The bytes of a file, or none if it cannot be read.
inline std::optional<std::string> FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// `name` of the chat templates in the folder of larger test data, which
// BOLE_DATA_DIR names; none if it is not there.
inline std::optional<std::string> CheckpointTemplate(const std::string& name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing changes the environment.
  const char* folder = std::getenv("BOLE_DATA_DIR");
  if (folder == nullptr) return std::nullopt;
  return FileText(std::string(folder) + "/tokenizer/templates/" + name);
}

// Parses and renders.
inline absl::StatusOr<std::string> Render(const std::string& source,
                                          const Json& context) {
  const absl::StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(source);
  if (!parsed.ok()) return parsed.status();
  return parsed->Render(context);
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_COMMON_CHAT_TEMPLATE_CASES_H_
