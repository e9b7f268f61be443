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
  std::string tenant = {};         // Of x-bole-tenant.
  std::string id = {};             // Of x-request-id.
  std::string traceparent = {};    // Of the header of that name.
  bool is_http_1_1 = true;         // Or 1.0, which knows no chunks.
  bool keep_alive = true;
  bool expects_continue = false;
  std::string body = {};
};

// A status line, headers, and for all but streams a body.
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

// The answer's status line and headers with the empty line after them. Of a
// header's value only what may stand in one is written.
std::string EncodeHead(const HttpAnswer& answer, Framing framing, bool close);

// What stands before the bytes of a chunk; "\r\n" follows them. REQUIRES: not
// 0, which would end the body.
std::string EncodeChunkHead(size_t num_bytes);

// An error that HTTP itself knows, in the form of OpenAI's.
HttpAnswer HttpError(int status, std::string_view code,
                     std::string_view message);

}  // namespace bole

#endif  // BOLE_COMMON_NET_HTTP_HTTP_MESSAGE_H_
