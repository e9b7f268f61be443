#include "common/net/http/request_reader.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/buffer.hpp"
#include "boost/beast/http/error.hpp"
#include "boost/beast/http/parser.hpp"
#include "boost/beast/http/string_body.hpp"
#include "common/check.h"

namespace bole {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

// A chunk's size and extension, or the trailer, besides the header.
constexpr size_t kChunkLineBytes = 4 << 10;

// What is left of a chunked body has at least the bytes of its last chunk,
// "0 CR LF CR LF". Beast takes it that it is not asked again with fewer.
constexpr size_t kLastChunkBytes = 5;

using Fields = http::request<http::string_body>;

// Several values make one with commas.
std::string ValueOf(const Fields& fields, const char* name) {
  std::string value;
  bool first = true;
  const auto [begin, end] = fields.equal_range(name);
  for (auto at = begin; at != end; ++at) {
    absl::StrAppend(&value, std::exchange(first, false) ? "" : ",",
                    absl::string_view(at->value().data(), at->value().size()));
  }
  return value;
}

size_t CountFields(const Fields& fields) {
  size_t count = 0;
  for (auto at = fields.begin(); at != fields.end(); ++at) ++count;
  return count;
}

}  // namespace

struct RequestReader::Parser {
  http::request_parser<http::string_body> beast;
};

RequestReader::RequestReader(const HttpLimits& limits) : limits_(limits) {
  Restart();
}

RequestReader::~RequestReader() = default;

void RequestReader::Restart() {
  parser_ = std::make_unique<Parser>();
  // The limit is checked here: where Beast notices that a header is too long
  // depends on how the bytes are cut.
  parser_->beast.header_limit(
      static_cast<uint32_t>(limits_.max_header_bytes + kChunkLineBytes));
  parser_->beast.body_limit(limits_.max_body_bytes);
  request_ = {};
  head_bytes_ = 0;
  state_ = State::kStart;
}

size_t RequestReader::body_bytes() const {
  return parser_->beast.get().body().size();
}

size_t RequestReader::max_lookahead() const {
  return limits_.max_header_bytes + kChunkLineBytes;
}

size_t RequestReader::SkipEmptyLines(std::string_view bytes) {
  size_t skipped = 0;
  while (skipped < bytes.size() &&
         (bytes[skipped] == '\r' || bytes[skipped] == '\n')) {
    ++skipped;
  }
  return skipped;
}

size_t RequestReader::Feed(std::string_view bytes) {
  BOLE_CHECK(state_ != State::kRequest && state_ != State::kError);
  size_t taken = state_ == State::kStart ? SkipEmptyLines(bytes) : 0;
  auto& beast = parser_->beast;
  const bool had_head = beast.is_header_done();
  while (taken < bytes.size() && !beast.is_done()) {
    if (state_ == State::kStart) state_ = State::kHead;
    if (beast.is_header_done() && beast.chunked() &&
        bytes.size() - taken < kLastChunkBytes) {
      break;
    }
    error_code error;
    const size_t put = beast.put(
        boost::asio::const_buffer(bytes.data() + taken, bytes.size() - taken),
        error);
    taken += put;
    if (!had_head) head_bytes_ += put;
    const bool is_partial = error == http::error::need_more;
    if (error == http::error::header_limit ||
        ((!error || is_partial) && !had_head &&
         HeadBytes(bytes.size() - taken) > limits_.max_header_bytes)) {
      Fail(431, "headers_too_large",
           absl::StrCat("the header is longer than ", limits_.max_header_bytes,
                        " bytes"));
      return taken;
    }
    if (is_partial) break;
    if (error == http::error::body_limit) {
      Fail(413, "body_too_large",
           absl::StrCat("the body is longer than ", limits_.max_body_bytes,
                        " bytes"));
      return taken;
    }
    if (error == http::error::bad_version) {
      Fail(505, "bad_version", "the versions are HTTP/1.0 and HTTP/1.1");
      return taken;
    }
    if (error) {
      Fail(400, "bad_request", absl::StrCat("no HTTP: ", error.message()));
      return taken;
    }
    if (!had_head && beast.is_header_done()) {
      TakeHead();
      if (state_ == State::kError) return taken;
      break;
    }
  }
  if (beast.is_done()) {
    request_.body = std::move(beast.get().body());
    state_ = State::kRequest;
  }
  return taken;
}

size_t RequestReader::HeadBytes(size_t untaken) const {
  return head_bytes_ + (parser_->beast.is_header_done() ? 0 : untaken);
}

void RequestReader::TakeHead() {
  const Fields& head = parser_->beast.get();
  if (CountFields(head) > limits_.max_headers) {
    return Fail(
        431, "too_many_headers",
        absl::StrCat("there are more than ", limits_.max_headers, " headers"));
  }
  // Any other coding would leave the end of the body unknown.
  const std::string coding = ValueOf(head, "Transfer-Encoding");
  if (!coding.empty() && !absl::EqualsIgnoreCase(coding, "chunked")) {
    return Fail(501, "bad_transfer_encoding",
                "the only Transfer-Encoding is chunked");
  }
  if (head.version() == 11 && head.count("Host") != 1) {
    return Fail(400, "bad_host", "there is to be one Host header");
  }
  const std::string target(head.target());
  request_ = {.method = std::string(head.method_string()),
              .path = target.substr(0, target.find('?')),
              .authorization = ValueOf(head, "Authorization"),
              .tenant = ValueOf(head, "X-Bole-Tenant"),
              .id = ValueOf(head, "X-Request-Id"),
              .traceparent = ValueOf(head, "traceparent"),
              .is_http_1_1 = head.version() == 11,
              .keep_alive = head.keep_alive(),
              .expects_continue = absl::EqualsIgnoreCase(
                  ValueOf(head, "Expect"), "100-continue")};
  state_ = State::kBody;
}

void RequestReader::FailAsTooLong() {
  if (state_ == State::kBody) {
    Fail(400, "bad_request", "a line of a chunk or the trailer is too long");
  } else {
    Fail(431, "headers_too_large", "the header is too long");
  }
}

void RequestReader::Fail(int status, std::string_view code,
                         std::string_view message) {
  error_ = HttpError(status, code, message);
  state_ = State::kError;
}

}  // namespace bole
