// A chat template of anybody's making, and a conversation for it. The input is
// the template, then a byte 0xFF, which UTF-8 cannot hold, then the context as
// JSON; a context that is not JSON is replaced by a small one.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/chat/chat_template.h"
#include "common/check.h"
#include "common/tokenizer/utf8.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

using Json = nlohmann::ordered_json;

Json SmallContext() {
  return {{"messages",
           {{{"role", "user"}, {"content", " hi "}},
            {{"role", "assistant"},
             {"content", nullptr},
             {"tool_calls",
              {{{"function",
                 {{"name", "f"}, {"arguments", {{"a", 1.5}, {"b", "x"}}}}}}}}},
            {{"role", "tool"}, {"content", "r"}}}},
          {"add_generation_prompt", true}};
}

Json ContextOf(std::string_view text) {
  Json context = Json::parse(text.begin(), text.end(), nullptr,
                             /*allow_exceptions=*/false);
  return context.is_object() ? context : SmallContext();
}

}  // namespace
}  // namespace bole

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\xFF'), size);
  const auto chat = bole::ChatTemplate::Parse(input.substr(0, end));
  if (!chat.ok()) return 0;
  const auto context =
      bole::ContextOf(input.substr(std::min(end + 1, input.size())));
  const auto text = chat->Render(context);
  if (!text.ok()) return 0;
  BOLE_CHECK(bole::IsValidUtf8(*text));
  // The same again: nothing is left over from a rendering.
  BOLE_CHECK(*chat->Render(context) == *text);
  return 0;
}
