// The bounds on HTTP connections.
#ifndef BOLE_COMMON_NET_HTTP_HTTP_LIMITS_H_
#define BOLE_COMMON_NET_HTTP_HTTP_LIMITS_H_

#include <chrono>
#include <cstddef>

namespace bole {

struct HttpLimits {
  // Counted from accept. One more is told 503, but for TLS, and closed.
  size_t max_connections = 4096;
  size_t max_header_bytes = 16 << 10;  // Request line and header: 431.
  size_t max_headers = 100;            // 431.
  size_t max_body_bytes = 4 << 20;     // 413.
  // Of all bodies that are being read, but for the first of each, so that
  // those who send little notice nothing of those who send much: 503.
  size_t max_bodies_bytes = 256 << 20;
  size_t uncounted_body_bytes = 16 << 10;
  // From accept to the end of the handshake of TLS; then it is closed.
  std::chrono::milliseconds handshake_time{10000};
  // A request is read within these times from its first byte, or ends with 408.
  std::chrono::milliseconds header_time{10000};
  std::chrono::milliseconds request_time{30000};
  // A connection without a request is closed.
  std::chrono::milliseconds idle_time{75000};
  // The last bytes of an answer are taken within this time, and what they take
  // at the slowest speed besides, or the connection is closed.
  std::chrono::milliseconds write_time{60000};
  size_t slowest_bytes_per_second = 64 << 10;
  // After the last answer, what still comes is read and dropped for this time,
  // so that the client gets the answer and no reset.
  std::chrono::milliseconds linger_time{2000};
  // The system's memory for what a client has not taken.
  int send_buffer_bytes = 256 << 10;
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_HTTP_HTTP_LIMITS_H_
