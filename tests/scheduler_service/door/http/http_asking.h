// Requests to the HTTP door of a tiny system, and their answers as parts.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_ASKING_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_ASKING_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "nlohmann/json.hpp"
#include "scheduler_service/scheduler_server.h"
#include "tests/common/net/http/raw_client.h"
#include "tests/scheduler_service/tiny_system.h"

namespace bole::testing {

inline SchedulerServerOptions WithHttp() {
  SchedulerServerOptions options;
  options.http_address = "127.0.0.1:0";
  return options;
}

struct Reply {
  int status;
  std::string head;
  std::string body;   // Of chunks, what they hold.
  bool whole = true;  // Chunks have an end.

  nlohmann::json Json() const { return nlohmann::json::parse(body); }
  bool HasHeader(const std::string& line) const {
    return head.find(line + "\r\n") != std::string::npos;
  }
};

// Reads what a connection says until its end.
inline Reply ReadReply(RawClient& client) {
  const std::string all = client.ReadAll();
  const size_t end = all.find("\r\n\r\n");
  BOLE_CHECK(end != std::string::npos);
  Reply reply{.status = std::stoi(all.substr(9, 3)),
              .head = all.substr(0, end + 4),
              .body = all.substr(end + 4)};
  if (!reply.HasHeader("Transfer-Encoding: chunked")) return reply;
  std::string_view chunks(all);
  chunks.remove_prefix(end + 4);
  reply.body.clear();
  reply.whole = false;
  while (!chunks.empty()) {
    const size_t size = std::stoul(std::string(chunks), nullptr, 16);
    chunks.remove_prefix(chunks.find("\r\n") + 2);
    reply.body += chunks.substr(0, size);
    chunks.remove_prefix(size + 2);
    if (size == 0) reply.whole = chunks.empty();
  }
  return reply;
}

// A request on a connection of its own, which ends with the answer.
inline std::string RequestText(const std::string& method,
                               const std::string& path,
                               const std::string& headers = "",
                               const std::string& body = "") {
  return method + " " + path +
         " HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body;
}

inline Reply AskFor(const TinySystem& system, const std::string& method,
                    const std::string& path, const std::string& headers = "",
                    const std::string& body = "") {
  RawClient client(system.server->http_port());
  client.Send(RequestText(method, path, headers, body));
  return ReadReply(client);
}

inline Reply Post(const TinySystem& system, const std::string& path,
                  const nlohmann::json& body, const std::string& headers = "") {
  return AskFor(system, "POST", path, headers, body.dump());
}

// A server-sent event.
struct Event {
  std::string name;
  std::string data;

  nlohmann::json Json() const { return nlohmann::json::parse(data); }
};

inline std::vector<Event> EventsOf(std::string_view stream) {
  std::vector<Event> events;
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    BOLE_CHECK(end != std::string_view::npos);
    std::string_view lines = stream.substr(0, end);
    stream.remove_prefix(end + 2);
    Event event;
    if (lines.starts_with("event: ")) {
      const size_t line = lines.find('\n');
      event.name = lines.substr(7, line - 7);
      lines.remove_prefix(line + 1);
    }
    BOLE_CHECK(lines.starts_with("data: "));
    event.data = lines.substr(6);
    events.push_back(std::move(event));
  }
  return events;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_DOOR_HTTP_HTTP_ASKING_H_
