// A line between two programs that a test can cut.
#ifndef BOLE_TESTS_E2E_TCP_RELAY_H_
#define BOLE_TESTS_E2E_TCP_RELAY_H_

#include <list>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace bole::e2e {

// Listens on a loopback port and passes every connection on to another one,
// byte by byte in both directions. Neither end knows that it is there.
//
// Thread-safe.
class TcpRelay {
 public:
  explicit TcpRelay(int target_port);
  ~TcpRelay();

  TcpRelay(const TcpRelay&) = delete;
  TcpRelay& operator=(const TcpRelay&) = delete;

  int port() const { return port_; }

  // Ends all connections there are, as if the machine at the other end had
  // died. Later ones are passed on.
  void Cut();

  // Passes nothing on and ends nothing: the other end seems to hang. Later
  // connections are passed on.
  void Freeze();

  // Connections that were passed on since the start.
  int num_connections() const;

 private:
  // Two sockets and a thread for each direction.
  class Connection;

  void Accept();

  const int target_port_;
  int listener_ = -1;
  int port_ = 0;
  mutable Mutex mutex_;
  std::list<std::unique_ptr<Connection>> connections_ ABSL_GUARDED_BY(mutex_);
  int num_connections_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace bole::e2e

#endif  // BOLE_TESTS_E2E_TCP_RELAY_H_
