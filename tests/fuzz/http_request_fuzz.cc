// The bytes of an HTTP connection, as a client may send them: however they are
// cut, the same requests come of them, and all of them are within the bounds.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "common/net/http/http_limits.h"
#include "common/net/http/http_message.h"
#include "common/net/http/request_reader.h"

namespace bole {
namespace {

constexpr HttpLimits kLimits = {
    .max_header_bytes = 1024, .max_headers = 8, .max_body_bytes = 256};

// The requests that a connection makes of the bytes, up to the first error.
// When that is noticed may depend on the cuts, as long as no request comes of
// it.
std::vector<std::string> Read(std::string_view bytes, size_t piece) {
  RequestReader reader(kLimits);
  std::vector<std::string> read;
  std::string input;
  while (true) {
    const size_t taken = reader.Feed(input);
    BOLE_CHECK(taken <= input.size());
    input.erase(0, taken);
    if (reader.state() == RequestReader::State::kRequest) {
      const HttpRequest& request = reader.request();
      BOLE_CHECK(request.body.size() <= kLimits.max_body_bytes);
      BOLE_CHECK(!request.method.empty());
      BOLE_CHECK(request.path.size() <= kLimits.max_header_bytes);
      read.push_back(request.method + " " + request.path + " " + request.body);
      reader.Restart();
      continue;
    }
    if (taken == 0 && input.size() >= reader.max_lookahead()) {
      reader.FailAsTooLong();
    }
    if (reader.state() == RequestReader::State::kError) {
      BOLE_CHECK(reader.error().status >= 400);
      return read;
    }
    if (taken > 0 && !input.empty()) continue;
    if (bytes.empty()) return read;
    const size_t more =
        std::min({piece, bytes.size(), reader.max_lookahead() - input.size()});
    input += bytes.substr(0, more);
    bytes.remove_prefix(more);
  }
}

}  // namespace
}  // namespace bole

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> whole = bole::Read(bytes, size + 1);
  BOLE_CHECK(bole::Read(bytes, 1) == whole);
  BOLE_CHECK(bole::Read(bytes, 7) == whole);
  // What is written of a foreign text is one header.
  const std::string head = bole::EncodeHead(
      {.headers = {{"X-Request-Id", std::string(bytes)}}, .body = "body"},
      bole::Framing::kLength, /*close=*/true);
  BOLE_CHECK(std::count(head.begin(), head.end(), '\n') == 7);
  BOLE_CHECK(bole::HttpError(400, "code", bytes).status == 400);
  return 0;
}
