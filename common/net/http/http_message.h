// Requests and answers of HTTP/1.1, as the server hands them on.
#ifndef BOLE_COMMON_NET_HTTP_HTTP_MESSAGE_H_
#define BOLE_COMMON_NET_HTTP_HTTP_MESSAGE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bole {

struct HttpRequest {
  std::string method = {};         // "POST"
  std::string path = {};           // Without the query.
  std::string authorization = {};  // Headers of several values have commas.
  std::string tenant = {};         // The x-bole-tenant header.
  std::string id = {};             // The x-request-id header.
  std::string traceparent = {};    // The traceparent header.
  bool is_http_1_1 = true;         // Else 1.0, which has no chunks.
  bool keep_alive = true;
  bool expects_continue = false;
  std::string body = {};
};

// A status line, headers, and, except for streams, a body.
struct HttpAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
};

// How the body of an answer ends.
enum class Framing {
  kLength,   // Content-Length.
  kChunked,  // Transfer-Encoding: chunked.
  kClose,    // The end of the connection.
};

// The answer's status line and headers with the empty line after them.
// Characters that may not stand in a header's value are replaced by '?'.
std::string EncodeHead(const HttpAnswer& answer, Framing framing, bool close);

// The text before the bytes of a chunk; "\r\n" follows them. REQUIRES:
// num_bytes is not 0, which would end the body.
std::string EncodeChunkHead(size_t num_bytes);

// An error that HTTP itself defines, in the form of OpenAI's.
HttpAnswer HttpError(int status, std::string_view code,
                     std::string_view message);

}  // namespace bole

#endif  // BOLE_COMMON_NET_HTTP_HTTP_MESSAGE_H_
