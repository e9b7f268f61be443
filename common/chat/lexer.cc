#include "common/chat/lexer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/chat/python_text.h"
#include "common/chat/string_literal.h"
#include "common/status_macros.h"
#include "common/tokenizer/utf8.h"

namespace bole::jinja {
namespace {

using Kind = Token::Kind;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool StartsName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool ContinuesName(char c) { return StartsName(c) || IsDigit(c); }

// `source` with \n for every line end, and without the one at its end.
std::string WithPlainLineEnds(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (source.substr(i).starts_with("\r\n")) ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < source_.size()) {
      const size_t tag = FindTag();
      LexText(tag);
      if (tag == source_.size()) break;
      const char opener = source_[tag + 1];
      Advance(tag + (HasSign(tag + 2) ? 3 : 2));
      BOLE_RETURN_IF_ERROR(opener == '#' ? SkipComment() : LexTag(opener));
    }
    Emit(Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  char At(size_t i) const { return i < source_.size() ? source_[i] : '\0'; }
  bool HasSign(size_t i) const { return At(i) == '-' || At(i) == '+'; }
  std::string_view Rest() const { return source_.substr(at_); }

  void Advance(size_t to) {
    line_ += static_cast<int>(
        std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                   source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  void Emit(Kind kind, std::string text) {
    tokens_.push_back({.kind = kind, .text = std::move(text), .line = line_});
  }

  absl::Status Error(std::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", line_, ": ", std::string(what)));
  }

  // Where the next tag or comment begins, or the end.
  size_t FindTag() const {
    for (size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] != '{') continue;
      const char next = source_[i + 1];
      if (next == '%' || next == '{' || next == '#') return i;
    }
    return source_.size();
  }

  // Emits the text before the tag at `tag`, without the white space that the
  // tag takes away, and moves there.
  void LexText(size_t tag) {
    std::string_view text = source_.substr(at_, tag - at_);
    const char sign = At(tag + 2);
    if (tag < source_.size() && sign == '-') {
      text = Strip(text, std::nullopt, {.left = false});
    } else if (tag < source_.size() && sign != '+' && At(tag + 1) != '{') {
      const size_t line_begin = text.rfind('\n') + 1;  // 0 if there is none.
      const bool starts_line = line_begin > 0 || at_line_start_;
      if (starts_line && Strip(text.substr(line_begin)).empty()) {
        text = text.substr(0, line_begin);
      }
    }
    if (!text.empty()) Emit(Kind::kText, std::string(text));
    Advance(tag);
  }

  // Moves behind a closing delimiter at at_ and the white space that it takes
  // away: all of it after '-', else one newline unless `keeps_newline`.
  void Close(size_t size, bool keeps_newline) {
    const bool strips = source_[at_] == '-';
    size_t end = at_ + size;
    if (strips) {
      const std::string_view rest = source_.substr(end);
      end += rest.size() -
             Strip(rest, std::nullopt, {.left = true, .right = false}).size();
    } else if (!keeps_newline && At(end) == '\n') {
      ++end;
    }
    at_line_start_ = source_[end - 1] == '\n';
    Advance(end);
  }

  absl::Status SkipComment() {
    const size_t end = Find(source_, "#}", at_);
    if (end == source_.npos) return Error("comment without end");
    const bool has_sign = end > at_ && HasSign(end - 1);
    const bool keeps_newline = has_sign && source_[end - 1] == '+';
    Advance(has_sign ? end - 1 : end);
    Close(has_sign ? 3 : 2, keeps_newline);
    return absl::OkStatus();
  }

  // The tokens of a tag, from behind its opening delimiter.
  absl::Status LexTag(char opener) {
    const bool is_block = opener == '%';
    Emit(is_block ? Kind::kTagBegin : Kind::kExprBegin, "");
    const std::string_view close = is_block ? "%}" : "}}";
    int open_brackets = 0;
    while (true) {
      SkipSpace();
      if (at_ == source_.size()) return Error("tag without end");
      const bool minus = At(at_) == '-';
      const bool plus = is_block && At(at_) == '+';
      const size_t sign_size = minus || plus ? 1 : 0;
      if (open_brackets == 0 && Rest().substr(sign_size).starts_with(close)) {
        Emit(is_block ? Kind::kTagEnd : Kind::kExprEnd, "");
        Close(sign_size + 2, /*keeps_newline=*/plus || !is_block);
        return RejectRaw();
      }
      BOLE_RETURN_IF_ERROR(LexOne(&open_brackets));
    }
  }

  // What follows {% raw %} is no template. Its tokens would mislead the parser.
  absl::Status RejectRaw() const {
    if (tokens_.size() < 3) return absl::OkStatus();
    const Token& begin = tokens_[tokens_.size() - 3];
    const Token& name = tokens_[tokens_.size() - 2];
    const bool is_raw = begin.kind == Kind::kTagBegin &&
                        name.kind == Kind::kName && name.text == "raw";
    if (!is_raw) return absl::OkStatus();
    return absl::UnimplementedError(
        absl::StrCat("line ", name.line, ": {% raw %} is not supported"));
  }

  void SkipSpace() {
    const std::string_view rest = Rest();
    Advance(source_.size() -
            Strip(rest, std::nullopt, {.left = true, .right = false}).size());
  }

  // One token inside of a tag.
  absl::Status LexOne(int* open_brackets) {
    const char c = source_[at_];
    if (StartsName(c)) {
      EmitWhile(Kind::kName, ContinuesName);
    } else if (IsDigit(c)) {
      LexNumber();
    } else if (c == '\'' || c == '"') {
      return LexString(c);
    } else {
      return LexOperator(open_brackets);
    }
    return absl::OkStatus();
  }

  void EmitTo(Kind kind, size_t end) {
    Emit(kind, std::string(source_.substr(at_, end - at_)));
    Advance(end);
  }

  void EmitWhile(Kind kind, bool (*continues)(char)) {
    size_t end = at_;
    while (continues(At(end))) ++end;
    EmitTo(kind, end);
  }

  void LexNumber() {
    const auto skip_digits = [this](size_t i) {
      while (IsDigit(At(i))) ++i;
      return i;
    };
    const size_t integer_end = skip_digits(at_);
    size_t end = integer_end;
    if (At(end) == '.' && IsDigit(At(end + 1))) end = skip_digits(end + 1);
    if (At(end) == 'e' || At(end) == 'E') {
      const size_t digits = end + (HasSign(end + 1) ? 2 : 1);
      if (IsDigit(At(digits))) end = skip_digits(digits);
    }
    EmitTo(end == integer_end ? Kind::kInteger : Kind::kFloat, end);
  }

  absl::Status LexString(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) {
      end += source_[end] == '\\' ? 2 : 1;
    }
    if (end >= source_.size()) return Error("string without end");
    absl::StatusOr<std::string> text =
        Unescape(source_.substr(at_ + 1, end - at_ - 1));
    if (!text.ok()) {
      return absl::Status(
          text.status().code(),
          absl::StrCat("line ", line_, ": ", text.status().message()));
    }
    Emit(Kind::kString, *std::move(text));
    Advance(end + 1);
    return absl::OkStatus();
  }

  absl::Status LexOperator(int* open_brackets) {
    constexpr std::string_view kDouble[] = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kSingle = "+-/*%~[](){}><=.:|,";
    for (const std::string_view op : kDouble) {
      if (!Rest().starts_with(op)) continue;
      EmitTo(Kind::kOperator, at_ + op.size());
      return absl::OkStatus();
    }
    const char c = source_[at_];
    if (kSingle.find(c) == kSingle.npos) {
      const int size = ScanUtf8(Rest()).size;
      return Error(absl::StrCat("unexpected character ",
                                std::string(Rest().substr(0, size))));
    }
    if (c == '(' || c == '[' || c == '{') ++*open_brackets;
    if (c == ')' || c == ']' || c == '}') {
      *open_brackets = std::max(0, *open_brackets - 1);
    }
    EmitTo(Kind::kOperator, at_ + 1);
    return absl::OkStatus();
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;  // Whether the text at at_ begins a line.
  std::vector<Token> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) {
  if (!IsValidUtf8(source)) {
    return absl::InvalidArgumentError("the template is not UTF-8");
  }
  const std::string plain = WithPlainLineEnds(source);
  return Lexer(plain).Run();
}

}  // namespace bole::jinja
