// Requests however their bytes are cut.
#include "common/net/http/request_reader.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "common/net/http/http_limits.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

constexpr HttpLimits kLimits = {
    .max_header_bytes = 1024, .max_headers = 8, .max_body_bytes = 256};

// The state after all `bytes`, or after the first request or error of them,
// when they come in pieces of the given size.
RequestReader::State StateAfter(std::string_view bytes, size_t piece) {
  RequestReader reader(kLimits);
  std::string input;
  while (!bytes.empty()) {
    const size_t more = std::min(piece, bytes.size());
    input += bytes.substr(0, more);
    bytes.remove_prefix(more);
    size_t taken = 0;
    do {
      taken = reader.Feed(input);
      input.erase(0, taken);
      if (reader.state() == RequestReader::State::kRequest ||
          reader.state() == RequestReader::State::kError) {
        return reader.state();
      }
    } while (taken > 0 && !input.empty());
  }
  return reader.state();
}

std::string HeaderOf(size_t length) {
  std::string head = "GET / HTTP/1.1\r\nHost: h\r\nA: ";
  const std::string_view end = "\r\n\r\n";
  head.append(length - head.size() - end.size(), 'x');
  return head.append(end);
}

TEST(RequestReaderTest, AHeaderMayBeAsLongAsTheLimitHoweverItIsCut) {
  const size_t limit = kLimits.max_header_bytes;
  for (const size_t piece : {size_t{1}, size_t{2}, size_t{7}, limit - 1, limit,
                             limit + 1, 2 * limit}) {
    SCOPED_TRACE(::testing::Message() << "pieces of " << piece);
    for (size_t length = limit - 8; length <= limit + 8; ++length) {
      // A second request does not count, nor do empty lines before the first.
      EXPECT_EQ(
          StateAfter("\r\n\r\n" + HeaderOf(length) + HeaderOf(100), piece),
          length <= limit ? RequestReader::State::kRequest
                          : RequestReader::State::kError)
          << length;
    }
  }
}

TEST(RequestReaderTest, AHeaderWithoutAnEndIsRefusedHoweverItIsCut) {
  const std::string endless = HeaderOf(600).substr(0, 596);
  for (const size_t piece : {1, 7, 1000, 5000}) {
    EXPECT_EQ(StateAfter(endless, piece), RequestReader::State::kHead);
    EXPECT_EQ(StateAfter(endless + std::string(1000, 'x'), piece),
              RequestReader::State::kError);
  }
}

}  // namespace
}  // namespace bole
