#include "common/net/http/http_message.h"

#include <algorithm>
#include <cstddef>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

const char* ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Payload Too Large";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

std::string Date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[64];
  return {text,
          std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &utc)};
}

std::string Visible(std::string_view value) {
  std::string visible(value);
  std::replace_if(
      visible.begin(), visible.end(), [](char c) { return c < ' ' || c > '~'; },
      '?');
  return visible;
}

}  // namespace

std::string EncodeHead(const HttpAnswer& answer, Framing framing, bool close) {
  std::string head = absl::StrCat(
      "HTTP/1.1 ", answer.status, " ", ReasonPhrase(answer.status),
      "\r\nDate: ", Date(), "\r\nContent-Type: ", answer.content_type, "\r\n");
  for (const auto& [name, value] : answer.headers) {
    absl::StrAppend(&head, name, ": ", Visible(value), "\r\n");
  }
  if (framing == Framing::kLength) {
    absl::StrAppend(&head, "Content-Length: ", answer.body.size(), "\r\n");
  } else if (framing == Framing::kChunked) {
    absl::StrAppend(&head, "Transfer-Encoding: chunked\r\n");
  }
  absl::StrAppend(&head, "Connection: ", close ? "close" : "keep-alive",
                  "\r\n\r\n");
  return head;
}

std::string EncodeChunkHead(size_t num_bytes) {
  return absl::StrCat(absl::Hex(num_bytes), "\r\n");
}

HttpAnswer HttpError(int status, std::string_view code,
                     std::string_view message) {
  const nlohmann::json body = {
      {"error",
       {{"message", message},
        {"type", status >= 500 ? "server_error" : "invalid_request_error"},
        {"param", nullptr},
        {"code", code}}}};
  // What is not UTF-8 in a message is replaced.
  return {.status = status,
          .body = body.dump(-1, ' ', false,
                            nlohmann::json::error_handler_t::replace)};
}

}  // namespace bole
