#include "common/json.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

constexpr size_t kMaxQuotedBytes = 160;

// `text` cut to a length and an alphabet that fit into a message: what the
// parser says quotes the document.
std::string Printable(std::string_view text) {
  std::string out(text.substr(0, kMaxQuotedBytes));
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  if (text.size() > kMaxQuotedBytes) out += "...";
  return out;
}

// Builds the document from the parser's events. Returning false stops the
// parser, and status() then says why.
class DocumentBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit DocumentBuilder(int max_depth)
      : max_depth_(static_cast<size_t>(max_depth)) {}

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override {
    return Add(value);
  }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return Fail("binary value"); }

  bool start_object(size_t) override { return Open(nlohmann::json::object()); }
  bool start_array(size_t) override { return Open(nlohmann::json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    auto [member, is_new] = open_.back()->emplace(name, nullptr);
    if (!is_new) return Fail(absl::StrCat("key twice in one object: ", name));
    member_ = &*member;
    return true;
  }

  bool parse_error(size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    const std::string_view what = error.what();
    const size_t prefix = what.find("] ");
    return Fail(prefix == what.npos ? what : what.substr(prefix + 2));
  }

  const absl::Status& status() const { return status_; }
  nlohmann::json TakeDocument() { return std::move(document_); }

 private:
  // Puts `value` where the next one belongs and returns its place, which stays
  // valid while it is open: its parent grows only after it is closed.
  nlohmann::json& Place(nlohmann::json value) {
    if (open_.empty()) return document_ = std::move(value);
    if (open_.back()->is_object()) return *member_ = std::move(value);
    open_.back()->push_back(std::move(value));
    return open_.back()->back();
  }

  bool Add(nlohmann::json value) {
    Place(std::move(value));
    return true;
  }

  bool Open(nlohmann::json container) {
    if (open_.size() == max_depth_) {
      return Fail(absl::StrCat("nested deeper than ", max_depth_));
    }
    open_.push_back(&Place(std::move(container)));
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  bool Fail(std::string_view why) {
    status_ =
        absl::InvalidArgumentError(absl::StrCat("JSON: ", Printable(why)));
    return false;
  }

  const size_t max_depth_;
  nlohmann::json document_;
  std::vector<nlohmann::json*> open_;  // From the root inwards.
  nlohmann::json* member_ = nullptr;   // Where the value of the last key goes.
  absl::Status status_;
};

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, int max_depth) {
  DocumentBuilder builder(max_depth);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  if (!builder.status().ok()) return builder.status();
  return builder.TakeDocument();
}

}  // namespace bole
