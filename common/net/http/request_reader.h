// Parses the bytes of a connection into requests, within bounds.
#ifndef BOLE_COMMON_NET_HTTP_REQUEST_READER_H_
#define BOLE_COMMON_NET_HTTP_REQUEST_READER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "common/net/http/http_limits.h"
#include "common/net/http/http_message.h"

namespace bole {

// Reads one request, then the next one. It uses neither sockets nor clocks.
// Memory: the body, and max_header_bytes. Not thread-safe.
class RequestReader {
 public:
  enum class State {
    kStart,    // Nothing of a request has come.
    kHead,     // A part of its line and header has.
    kBody,     // The head is complete, request() has it, and the body is not.
    kRequest,  // request() is complete.
    kError,    // error() says why; the connection is unusable.
  };

  explicit RequestReader(const HttpLimits& limits);
  ~RequestReader();

  // Takes as many of `bytes` as it can, stops when the state becomes kBody or
  // kRequest, and returns how many it took. The others must be passed again
  // with those that follow them, at least max_lookahead() bytes in all if there
  // are so many. REQUIRES: state() is not kRequest or kError.
  // COST: linear in what it takes.
  size_t Feed(std::string_view bytes);

  // The most bytes that Feed() wants to see at once.
  size_t max_lookahead() const;

  State state() const { return state_; }
  // REQUIRES: kBody, without the body, or kRequest.
  HttpRequest& request() { return request_; }
  size_t body_bytes() const;  // What has come of the body. REQUIRES: kBody.
  const HttpAnswer& error() const { return error_; }

  // Call this if the connection has no room for more bytes and Feed() took
  // none.
  void FailAsTooLong();

  // Begins the next request.
  void Restart();

 private:
  struct Parser;

  size_t SkipEmptyLines(std::string_view bytes);
  // The length of the request line and the header or, while they are not
  // complete, how many of their bytes have come, `untaken` ones included.
  size_t HeadBytes(size_t untaken) const;
  void TakeHead();
  void Fail(int status, std::string_view code, std::string_view message);

  const HttpLimits limits_;
  State state_ = State::kStart;
  size_t head_bytes_ = 0;  // What has been taken of the line and the header.
  std::unique_ptr<Parser> parser_;
  HttpRequest request_;
  HttpAnswer error_;
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_HTTP_REQUEST_READER_H_
