// An HTTP server that a test controls byte by byte: the test decides what is
// sent over each connection.
#ifndef BOLE_TESTS_CLIENTS_BENCH_HTTP_LISTENER_H_
#define BOLE_TESTS_CLIENTS_BENCH_HTTP_LISTENER_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/check.h"

namespace bole::testing_support {

// An accepted connection. Reads wait at most 20 s. Not thread-safe.
class HttpPeer {
 public:
  explicit HttpPeer(int fd) : fd_(fd) {
    const timeval timeout{.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  }
  ~HttpPeer() { Close(); }

  HttpPeer(const HttpPeer&) = delete;
  HttpPeer& operator=(const HttpPeer&) = delete;

  // Reads until `text` has come, or until the client sends no more.
  std::string ReadUntil(std::string_view text) {
    size_t end;
    while ((end = buffer_.find(text)) == std::string::npos) {
      if (!ReadSome()) return std::exchange(buffer_, {});
    }
    std::string read = buffer_.substr(0, end + text.size());
    buffer_.erase(0, end + text.size());
    return read;
  }

  // Reads a head, which must have a Content-Length, and returns the body.
  std::string ReadBody() {
    const std::string head = ReadUntil("\r\n\r\n");
    constexpr std::string_view kLength = "Content-Length: ";
    const size_t at = head.find(kLength);
    BOLE_CHECK(at != std::string::npos);
    last_head_ = head;
    const size_t size = std::stoul(head.substr(at + kLength.size()));
    while (buffer_.size() < size && ReadSome()) continue;
    std::string body = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return body;
  }
  // The head that the latest ReadBody() has read.
  const std::string& last_head() const { return last_head_; }

  void Write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      BOLE_CHECK(sent > 0);
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  // Whether the client closes or resets the connection without another byte.
  bool AwaitEnd() {
    char byte;
    const ssize_t got = recv(fd_, &byte, 1, 0);
    const bool timed_out = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    return buffer_.empty() && got <= 0 && !timed_out;
  }

 private:
  bool ReadSome() {
    char bytes[4096];
    const ssize_t got = recv(fd_, bytes, sizeof(bytes), 0);
    if (got <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(got));
    return true;
  }

  int fd_;
  std::string buffer_;
  std::string last_head_;
};

// Listens on a free port of the loopback interface until it is destroyed.
class HttpListener {
 public:
  HttpListener() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    BOLE_CHECK(fd_ >= 0 && bind(fd_, raw, size) == 0);
    BOLE_CHECK(listen(fd_, /*backlog=*/256) == 0);
    BOLE_CHECK(getsockname(fd_, raw, &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~HttpListener() { close(fd_); }

  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  int port() const { return port_; }
  int num_accepted() const { return num_accepted_; }

  // Waits for the next connection.
  std::unique_ptr<HttpPeer> Accept() {
    const int fd = accept(fd_, nullptr, nullptr);
    BOLE_CHECK(fd >= 0);
    ++num_accepted_;
    return std::make_unique<HttpPeer>(fd);
  }

 private:
  int fd_;
  int port_ = 0;
  int num_accepted_ = 0;
};

}  // namespace bole::testing_support

#endif  // BOLE_TESTS_CLIENTS_BENCH_HTTP_LISTENER_H_
