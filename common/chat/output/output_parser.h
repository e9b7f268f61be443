// Extracts reasoning and tool calls from the text that a model writes.
#ifndef BOLE_COMMON_CHAT_OUTPUT_OUTPUT_PARSER_H_
#define BOLE_COMMON_CHAT_OUTPUT_OUTPUT_PARSER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/chat/output/call_scanner.h"
#include "common/chat/output/output_format.h"

namespace bole {

inline constexpr int kMaxOutputCalls = 128;

// A call, and where in the text it was written, from <tool_call> on.
struct OutputCall {
  std::string name;
  std::string arguments_json;  // An object.
  size_t begin = 0;            // In bytes of all text that was pushed.
  size_t size = 0;
  int number = 0;  // Among the calls of the text, from 0.
};

// The output that has become certain.
struct OutputDelta {
  std::string content;
  std::string reasoning;
  std::vector<OutputCall> calls;
};

// Reads the text in arbitrary pieces; the output up to any byte does not depend
// on how the text is divided. Text that may be the start of a tag is held back,
// and so is a call until it is complete. If whole characters are pushed, whole
// characters come out.
//
// Reasoning is what stands between <think> and </think>, once, at the start; it
// ends with the text if nothing else ends it. A call is content, exactly as it
// was written, if it is malformed (CallScanner), names no function of the
// tools, repeats a parameter, is longer than kMaxCallBytes, is cut off, comes
// after kMaxOutputCalls others, or is inside the reasoning, to whose text it
// then belongs.
//
// Nothing else is removed from the text except the two tags of the reasoning,
// and newlines: those right before and after <think> and </think>, those right
// before a call, and those right after one if another call or the end follows.
// Where the prompt has opened or closed the reasoning, newlines at the start of
// the text count as those after its tag.
//
// Not thread-safe. COST: linear in the text.
class OutputParser {
 public:
  explicit OutputParser(std::shared_ptr<const OutputFormat> format);

  OutputDelta Push(std::string_view text);
  // Call this when the text has ended. Returns what was held back.
  OutputDelta Finish();

  // How much text is held back.
  size_t held_bytes() const { return held_.size() + newlines_; }

 private:
  enum class Part { kStart, kReasoning, kContent, kCall };

  // These consume what they can of held_ from `at` on, and return whether
  // another part has begun.
  bool ReadText(size_t& at, OutputDelta& out);
  bool ReadCall(size_t& at, OutputDelta& out);
  void Read(OutputDelta& out);

  // The tag that ends or interrupts the text of this part; empty: none does.
  std::string_view Tag() const;
  void TakeTag(size_t& at);
  void Emit(std::string_view text, OutputDelta& out);
  void EmitNewlines(OutputDelta& out);

  const std::shared_ptr<const OutputFormat> format_;
  Part part_;
  std::string held_;
  size_t newlines_ = 0;      // Newlines before held_, which may be text.
  bool drop_newlines_;       // They are not text, whatever follows.
  bool after_call_ = false;  // They are not text if the end follows.
  size_t plain_ = 0;         // The first bytes of held_ in which no tag counts.
  size_t begin_ = 0;         // Where held_ begins in the text.
  size_t scanned_ = 0;       // How much of held_ the scanner has seen.
  std::optional<CallScanner> scanner_;
  int num_calls_ = 0;
};

}  // namespace bole

#endif  // BOLE_COMMON_CHAT_OUTPUT_OUTPUT_PARSER_H_
