// The bounds on HTTP connections.
#ifndef BOLE_COMMON_NET_HTTP_HTTP_LIMITS_H_
#define BOLE_COMMON_NET_HTTP_HTTP_LIMITS_H_

#include <chrono>
#include <cstddef>

namespace bole {

struct HttpLimits {
  // Counted from accept. A connection beyond these is closed, after an answer
  // with 503 unless TLS is used.
  size_t max_connections = 4096;
  size_t max_header_bytes = 16 << 10;  // Request line and header: 431.
  size_t max_headers = 100;            // 431.
  size_t max_body_bytes = 4 << 20;     // 413.
  // Bound on the bytes of all bodies that are being read: 503. The first
  // `uncounted_body_bytes` of each body do not count, so that clients with
  // small bodies are not affected by those with large ones.
  size_t max_bodies_bytes = 256 << 20;
  size_t uncounted_body_bytes = 16 << 10;
  // From accept to the end of the TLS handshake. A connection that takes longer
  // is closed.
  std::chrono::milliseconds handshake_time{10000};
  // The header and the whole request must arrive within these times from the
  // request's first byte, or the answer is 408.
  std::chrono::milliseconds header_time{10000};
  std::chrono::milliseconds request_time{30000};
  // A connection that has no request for this long is closed.
  std::chrono::milliseconds idle_time{75000};
  // The client must take the last bytes of an answer within this time plus the
  // time that they need at the slowest speed, or the connection is closed.
  std::chrono::milliseconds write_time{60000};
  size_t slowest_bytes_per_second = 64 << 10;
  // After the last answer, further input is read and dropped for this long, so
  // that the client receives the answer and not a reset.
  std::chrono::milliseconds linger_time{2000};
  // The socket's send buffer, which holds what the client has not taken yet.
  int send_buffer_bytes = 256 << 10;
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_HTTP_HTTP_LIMITS_H_
