#include "tests/e2e/tcp_relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "common/check.h"

namespace bole::e2e {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  BOLE_CHECK(fd >= 0);
  const sockaddr_in address = Loopback(port);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) == 0) {
    return fd;
  }
  close(fd);
  return -1;
}

void DisableNagle(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

class TcpRelay::Connection {
 public:
  Connection(int near, int far) : near_(near), far_(far) {
    DisableNagle(near);
    DisableNagle(far);
    forth_ = std::thread([this] { Pass(near_, far_); });
    back_ = std::thread([this] { Pass(far_, near_); });
  }

  ~Connection() {
    Cut();
    forth_.join();
    back_.join();
    close(near_);
    close(far_);
  }

  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Cut() {
    shutdown(near_, SHUT_RDWR);
    shutdown(far_, SHUT_RDWR);
  }

  void Freeze() { frozen_ = true; }

 private:
  void Pass(int from, int to) {
    std::array<char, 1 << 16> buffer;
    while (true) {
      const ssize_t size = recv(from, buffer.data(), buffer.size(), 0);
      if (size <= 0) break;
      if (frozen_) continue;
      for (ssize_t sent = 0; sent < size;) {
        const ssize_t n =
            send(to, buffer.data() + sent, size - sent, MSG_NOSIGNAL);
        if (n <= 0) {
          Cut();
          return;
        }
        sent += n;
      }
    }
    if (!frozen_) Cut();
  }

  const int near_;
  const int far_;
  std::atomic<bool> frozen_{false};
  std::thread forth_;
  std::thread back_;
};

TcpRelay::TcpRelay(int target_port)
    : target_port_(target_port),
      listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  BOLE_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
  BOLE_CHECK(listen(listener_, 64) == 0);
  BOLE_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address),
                         &size) == 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Accept(); });
}

TcpRelay::~TcpRelay() {
  shutdown(listener_, SHUT_RDWR);  // Ends the accept().
  thread_.join();
  close(listener_);
}

void TcpRelay::Cut() {
  MutexLock lock(mutex_);
  connections_.clear();
}

void TcpRelay::Freeze() {
  MutexLock lock(mutex_);
  for (auto& connection : connections_) connection->Freeze();
}

int TcpRelay::num_connections() const {
  MutexLock lock(mutex_);
  return num_connections_;
}

void TcpRelay::Accept() {
  while (true) {
    const int near = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (near < 0) return;
    const int far = Connect(target_port_);
    if (far < 0) {  // Nobody listens there.
      close(near);
      continue;
    }
    MutexLock lock(mutex_);
    connections_.push_back(std::make_unique<Connection>(near, far));
    ++num_connections_;
  }
}

}  // namespace bole::e2e
