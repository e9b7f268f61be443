// The time of day, as records have it.
#ifndef BOLE_COMMON_FLIGHT_UNIX_TIME_H_
#define BOLE_COMMON_FLIGHT_UNIX_TIME_H_

#include <cstdint>
#include <ctime>

namespace bole {

// Microseconds since 1970, by the system's clock. Async-signal-safe.
inline int64_t UnixMicroseconds() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * int64_t{1'000'000} + now.tv_nsec / 1000;
}

}  // namespace bole

#endif  // BOLE_COMMON_FLIGHT_UNIX_TIME_H_
