#include "common/chat/output/call_scanner.h"

#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

constexpr std::string_view kFunctionTag = "<function=";
constexpr std::string_view kFunctionEndTag = "</function>";
constexpr std::string_view kParameterTag = "<parameter=";
constexpr std::string_view kParameterEndTag = "</parameter>";

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// Takes `tag` and white space before it off the end of `text`.
bool Chop(std::string_view tag, std::string_view& text) {
  if (!text.ends_with(tag)) return false;
  text.remove_suffix(tag.size());
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return true;
}

// The same, with the white space kept.
bool ChopExactly(std::string_view tag, std::string_view& text) {
  if (!text.ends_with(tag)) return false;
  text.remove_suffix(tag.size());
  return true;
}

// What may stand in JSON outside of strings.
bool IsJsonByte(char c) {
  return IsSpace(c) || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         c == '{' || c == '}' || c == '[' || c == ']' || c == ':' || c == ',' ||
         c == '"' || c == '-' || c == '+' || c == '.' || c == 'E';
}

}  // namespace

CallScanner::CallScanner(CallForm form, const ToolSet& tools)
    : form_(form), tools_(tools) {}

std::optional<std::string_view> CallScanner::Expect(
    std::string_view text, std::initializer_list<std::string_view> tags) {
  const std::string_view seen = text.substr(tag_begin_);
  if (seen.size() == 1 && IsSpace(seen[0])) {
    ++tag_begin_;
    return "";
  }
  for (const std::string_view tag : tags) {
    if (tag == seen) return tag;
  }
  for (const std::string_view tag : tags) {
    if (tag.starts_with(seen)) return "";
  }
  return std::nullopt;
}

std::optional<std::string_view> CallScanner::Name(std::string_view text) const {
  const std::string_view name = text.substr(tag_begin_);
  if (name.back() == '>') {
    if (name.size() == 1) return std::nullopt;
    return name.substr(0, name.size() - 1);
  }
  const bool bad = name.back() == '\n' || name.back() == '<' ||
                   name.size() > kMaxFunctionNameBytes;
  if (bad) return std::nullopt;
  return "";
}

CallScanner::Result CallScanner::Go(Part part, std::string_view text) {
  part_ = part;
  tag_begin_ = text.size();
  return Result::kMore;
}

CallScanner::Result CallScanner::Push(std::string_view text) {
  if (text.size() > kMaxCallBytes) return Result::kNone;
  switch (part_) {
    case Part::kOpen:
    case Part::kFunction:
      return PushOpening(text);
    case Part::kName:
    case Part::kParameter:
      return PushName(text);
    case Part::kBody:
      return PushBody(text);
    case Part::kValue:
      return PushValue(text);
    case Part::kJson:
      return PushJson(text);
    case Part::kClose:
      return PushClose(text);
  }
  return Result::kNone;
}

CallScanner::Result CallScanner::PushOpening(std::string_view text) {
  const bool first = part_ == Part::kOpen;
  const std::string_view wanted = first                      ? kCallTag
                                  : form_ == CallForm::kJson ? "{"
                                                             : kFunctionTag;
  const auto tag = Expect(text, {wanted});
  if (!tag) return Result::kNone;
  if (tag->empty()) return Result::kMore;
  if (first) return Go(Part::kFunction, text);
  if (form_ == CallForm::kXml) return Go(Part::kName, text);
  json_begin_ = text.size() - 1;
  open_ = {'}'};
  return Go(Part::kJson, text);
}

CallScanner::Result CallScanner::PushName(std::string_view text) {
  const auto name = Name(text);
  if (!name) return Result::kNone;
  if (name->empty()) return Result::kMore;
  if (part_ == Part::kName) {
    if (!tools_.Has(*name)) return Result::kNone;
    call_.name = *name;
    return Go(Part::kBody, text);
  }
  parameters_.push_back({.name = std::string(*name), .begin = text.size()});
  return Go(Part::kValue, text);
}

CallScanner::Result CallScanner::PushBody(std::string_view text) {
  const auto tag = Expect(text, {kParameterTag, kFunctionEndTag});
  if (!tag) return Result::kNone;
  if (tag->empty()) return Result::kMore;
  return Go(*tag == kParameterTag ? Part::kParameter : Part::kClose, text);
}

// Whether the value ends with `text`, a tag that ends it included.
bool CallScanner::EndValue(std::string_view text) {
  Parameter& last = parameters_.back();
  if (!ChopExactly(kParameterEndTag, text) || text.size() < last.begin) {
    return false;
  }
  last.end = text.size();
  return true;
}

CallScanner::Result CallScanner::PushValue(std::string_view text) {
  std::string_view before = text;
  if (Chop(kParameterTag, before)) {
    if (EndValue(before)) return Go(Part::kParameter, text);
    return Result::kMore;
  }
  if (!Chop(kCallEndTag, before) || !Chop(kFunctionEndTag, before) ||
      before.size() < parameters_.back().begin) {
    return Result::kMore;
  }
  if (!EndValue(before) || !ReadXml(text)) return Result::kNone;
  return Result::kWhole;
}

CallScanner::Result CallScanner::PushClose(std::string_view text) {
  const auto tag = Expect(text, {kCallEndTag});
  if (!tag) return Result::kNone;
  if (tag->empty()) return Result::kMore;
  if (form_ == CallForm::kXml) {
    return ReadXml(text) ? Result::kWhole : Result::kNone;
  }
  return ReadJson(text) ? Result::kWhole : Result::kNone;
}

bool CallScanner::ReadXml(std::string_view text) {
  std::set<std::string_view> names;
  std::string json = "{";
  for (const Parameter& parameter : parameters_) {
    if (!names.insert(parameter.name).second) return false;
    std::string_view value =
        text.substr(parameter.begin, parameter.end - parameter.begin);
    if (value.starts_with('\n')) value.remove_prefix(1);
    if (value.ends_with('\n')) value.remove_suffix(1);
    absl::StrAppend(
        &json, names.size() > 1 ? ", " : "", JsonString(parameter.name), ": ",
        ParameterJson(value, tools_.KindsOf(call_.name, parameter.name)));
  }
  call_.arguments_json = json + "}";
  return true;
}

CallScanner::Result CallScanner::PushJson(std::string_view text) {
  const char c = text.back();
  if (in_string_) {
    if (static_cast<unsigned char>(c) < ' ') return Result::kNone;
    in_string_ = escaped_ || c != '"';
    escaped_ = !escaped_ && c == '\\';
    return Result::kMore;
  }
  if (!IsJsonByte(c)) return Result::kNone;
  in_string_ = c == '"';
  if (c == '{' || c == '[') {
    if (open_.size() > kMaxCallDepth) return Result::kNone;
    if (open_.size() == 1) {
      // A member beside the arguments.
      if (nested_end_ != 0) return Result::kNone;
      nested_begin_ = text.size() - 1;
    }
    open_.push_back(c == '{' ? '}' : ']');
  }
  if (c != '}' && c != ']') return Result::kMore;
  if (open_.back() != c) return Result::kNone;
  open_.pop_back();
  if (open_.size() == 1) nested_end_ = text.size();
  if (!open_.empty()) return Result::kMore;
  json_end_ = text.size();
  return Go(Part::kClose, text);
}

bool CallScanner::ReadJson(std::string_view text) {
  const absl::StatusOr<nlohmann::json> call = ParseJson(
      text.substr(json_begin_, json_end_ - json_begin_), kMaxCallDepth + 1);
  if (!call.ok()) return false;
  const auto name = call->find("name");
  if (name == call->end() || !name->is_string()) return false;
  call_.name = name->get<std::string>();
  if (!tools_.Has(call_.name)) return false;
  const auto arguments = call->find("arguments");
  if (arguments == call->end()) {
    call_.arguments_json = "{}";
    return nested_end_ == 0;
  }
  if (!arguments->is_object()) return false;
  call_.arguments_json =
      text.substr(nested_begin_, nested_end_ - nested_begin_);
  return true;
}

}  // namespace bole
