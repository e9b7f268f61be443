// A socket to an HTTP server, byte by byte.
#ifndef BOLE_TESTS_COMMON_NET_HTTP_RAW_CLIENT_H_
#define BOLE_TESTS_COMMON_NET_HTTP_RAW_CLIENT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "common/check.h"

namespace bole::testing {

// Reads wait at most 20 s. One thread.
class RawClient {
 public:
  // A small `receive_buffer`, if it is set, makes a slow reader noticed early.
  // `family` is AF_INET or AF_INET6.
  explicit RawClient(int port, int receive_buffer = 0, int family = AF_INET)
      : fd_(socket(family, SOCK_STREAM, 0)) {
    BOLE_CHECK(fd_ >= 0);
    Set(SOL_SOCKET, SO_RCVTIMEO, timeval{.tv_sec = 20, .tv_usec = 0});
    Set(IPPROTO_TCP, TCP_NODELAY, 1);
    if (receive_buffer != 0) Set(SOL_SOCKET, SO_RCVBUF, receive_buffer);
    const uint16_t network_port = htons(static_cast<uint16_t>(port));
    if (family == AF_INET6) {
      Connect(sockaddr_in6{.sin6_family = AF_INET6,
                           .sin6_port = network_port,
                           .sin6_flowinfo = 0,
                           .sin6_addr = IN6ADDR_LOOPBACK_INIT,
                           .sin6_scope_id = 0});
    } else {
      Connect(sockaddr_in{.sin_family = AF_INET,
                          .sin_port = network_port,
                          .sin_addr = {htonl(INADDR_LOOPBACK)},
                          .sin_zero = {}});
    }
  }
  ~RawClient() { Close(); }

  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // Returns false if the server takes no more.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(sent);
    }
    return true;
  }
  int fd() const { return fd_; }
  void EndSending() { shutdown(fd_, SHUT_WR); }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  // Reads until `text` has come, or the end. Returns what was read since the
  // last call.
  std::string ReadUntil(std::string_view text) {
    size_t end;
    while ((end = buffer_.find(text)) == std::string::npos) {
      if (!ReadSome()) return std::move(buffer_);
    }
    return Take(end + text.size());
  }
  std::string ReadAll() {
    while (ReadSome()) continue;
    return std::move(buffer_);
  }
  // An answer with a Content-Length: head and body.
  std::string ReadAnswer() {
    std::string head = ReadUntil("\r\n\r\n");
    constexpr std::string_view kLength = "Content-Length: ";
    const size_t at = head.find(kLength);
    if (at == std::string::npos) return head;
    const size_t size = std::stoul(head.substr(at + kLength.size()));
    while (buffer_.size() < size && ReadSome()) continue;
    return head + Take(size);
  }
  // Whether the server closes or resets the connection without another byte.
  bool AwaitEnd() { return buffer_.empty() && !ReadSome() && ended_; }

 private:
  template <typename Value>
  void Set(int level, int option, const Value& value) {
    BOLE_CHECK(setsockopt(fd_, level, option, &value, sizeof(value)) == 0);
  }
  template <typename Address>
  void Connect(const Address& to) {
    BOLE_CHECK(
        connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
  }
  bool ReadSome() {
    char bytes[4096];
    const ssize_t got = recv(fd_, bytes, sizeof(bytes), 0);
    if (got > 0) buffer_.append(bytes, got);
    ended_ = got == 0 || (got < 0 && errno == ECONNRESET);
    return got > 0;
  }
  std::string Take(size_t size) {
    std::string taken = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return taken;
  }

  int fd_;
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_COMMON_NET_HTTP_RAW_CLIENT_H_
