#include "common/chat/python_format.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/chat/python_text.h"
#include "common/status_macros.h"
#include "common/tokenizer/utf8.h"

namespace bole::jinja {
namespace {

enum class Style { kRepr, kJson };

std::string NumberText(const Value& value, Style style) {
  if (const bool* flag = std::get_if<bool>(&value.variant())) {
    if (style == Style::kJson) return *flag ? "true" : "false";
    return *flag ? "True" : "False";
  }
  if (const auto* number = std::get_if<int64_t>(&value.variant())) {
    return absl::StrCat(*number);
  }
  if (const auto* number = std::get_if<BigUnsigned>(&value.variant())) {
    return absl::StrCat(number->value);
  }
  const double number = std::get<double>(value.variant());
  if (style == Style::kRepr || std::isfinite(number)) {
    return ReprOfFloat(number);
  }
  if (std::isnan(number)) return "NaN";
  return number > 0 ? "Infinity" : "-Infinity";
}

bool IsNumber(const Value& value) {
  return value.Is<bool>() || value.Is<int64_t>() || value.Is<BigUnsigned>() ||
         value.Is<double>();
}

// Writes one value, and what it holds, to a string.
class Writer {
 public:
  Writer(Style style, Budget* budget) : style_(style), budget_(budget) {}

  absl::Status Write(const Value& value) {
    const size_t size_before = out_.size();
    if (IsNumber(value)) {
      out_ += NumberText(value, style_);
    } else if (value.Is<Undefined>() && style_ == Style::kRepr) {
      out_ += "Undefined";
    } else if (value.Is<None>()) {
      out_ += style_ == Style::kJson ? "null" : "None";
    } else if (const std::string* text = value.AsString()) {
      out_ += StringText(*text);
    } else if (const List* list = value.AsList()) {
      return WriteList(*list);
    } else if (const Dict* dict = value.AsDict()) {
      return WriteDict(*dict);
    } else {
      return NotWritable(value);
    }
    return Account(out_.size() - size_before);
  }

  std::string TakeText() { return std::move(out_); }

 private:
  std::string StringText(std::string_view text) const {
    return style_ == Style::kJson ? JsonOfString(text) : ReprOfString(text);
  }

  absl::Status WriteList(const List& list) {
    const bool is_tuple = list.is_tuple && style_ == Style::kRepr;
    out_ += is_tuple ? '(' : '[';
    bool is_first = true;
    for (const Value& item : list.items) {
      if (!is_first) out_ += ", ";
      is_first = false;
      BOLE_RETURN_IF_ERROR(Write(item));
    }
    if (is_tuple && list.items.size() == 1) out_ += ',';
    out_ += is_tuple ? ')' : ']';
    return Account(2);
  }

  absl::Status WriteDict(const Dict& dict) {
    out_ += '{';
    bool is_first = true;
    for (const auto& [key, item] : dict.items) {
      if (!is_first) out_ += ", ";
      is_first = false;
      out_ += StringText(key);
      out_ += ": ";
      BOLE_RETURN_IF_ERROR(Account(key.size()));
      BOLE_RETURN_IF_ERROR(Write(item));
    }
    out_ += '}';
    return Account(2);
  }

  // Shared items are written again each time, so the text of a small value may
  // be long without end.
  absl::Status Account(size_t new_bytes) const {
    if (out_.size() > kMaxStringBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a string of more than ", kMaxStringBytes, " bytes"));
    }
    return budget_->ChargeBytes(new_bytes);
  }

  absl::Status NotWritable(const Value& value) const {
    const std::string type(value.TypeName());
    if (style_ == Style::kJson) {
      return absl::InvalidArgumentError(
          absl::StrCat("Object of type ", type, " is not JSON serializable"));
    }
    return absl::UnimplementedError(
        absl::StrCat("the text of a ", type, " is not supported"));
  }

  Style style_;
  Budget* budget_;
  std::string out_;
};

absl::StatusOr<std::string> WriteAs(Style style, const Value& value,
                                    Budget* budget) {
  Writer writer(style, budget);
  BOLE_RETURN_IF_ERROR(writer.Write(value));
  return writer.TakeText();
}

// The escape that both spellings have for a control character, or null.
const char* CommonEscape(char c) {
  switch (c) {
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return nullptr;
  }
}

void AppendReprOfCharacter(std::string_view character, std::string* out) {
  const uint32_t code_point =
      DecodeCodePoint(character, static_cast<int>(character.size()));
  if (IsPythonPrintable(code_point)) {
    out->append(character);
  } else if (code_point < 0x100) {
    absl::StrAppendFormat(out, "\\x%02x", code_point);
  } else if (code_point < 0x10000) {
    absl::StrAppendFormat(out, "\\u%04x", code_point);
  } else {
    absl::StrAppendFormat(out, "\\U%08x", code_point);
  }
}

}  // namespace

absl::StatusOr<std::string> ToStr(const Value& value, Budget* budget) {
  if (value.Is<Undefined>()) return "";
  if (const std::string* text = value.AsString()) return *text;
  return WriteAs(Style::kRepr, value, budget);
}

absl::StatusOr<std::string> ToJson(const Value& value, Budget* budget) {
  return WriteAs(Style::kJson, value, budget);
}

std::string ReprOfString(std::string_view text) {
  // Double quotes only where they save escapes.
  const bool has_single = text.find('\'') != text.npos;
  const bool has_double = text.find('"') != text.npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (const std::string_view character : Characters(text)) {
    if (const char* escape = CommonEscape(character[0])) {
      out += escape;
    } else if (character[0] == quote) {
      out += '\\';
      out += quote;
    } else {
      AppendReprOfCharacter(character, &out);
    }
  }
  out += quote;
  return out;
}

std::string ReprOfFloat(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  // The shortest digits that give the number back, as d.ddde+xx.
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), number,
                                 std::chars_format::scientific)
                       .ptr;
  const std::string_view scientific(buffer, end - buffer);
  const size_t e = scientific.find('e');
  const int exponent = std::atoi(std::string(scientific.substr(e + 1)).c_str());
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  const auto fixed_end = std::to_chars(buffer, buffer + sizeof(buffer), number,
                                       std::chars_format::fixed)
                             .ptr;
  std::string fixed(buffer, fixed_end);
  if (fixed.find('.') == fixed.npos) fixed += ".0";
  return fixed;
}

std::string JsonOfString(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (const char* escape = CommonEscape(c)) {
      out += escape;
    } else if (c == '"') {
      out += "\\\"";
    } else if (c == '\b') {
      out += "\\b";
    } else if (c == '\f') {
      out += "\\f";
    } else if (static_cast<uint8_t>(c) < 0x20) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<uint8_t>(c));
    } else {
      out += c;
    }
  }
  out += '"';
  return out;
}

}  // namespace bole::jinja
