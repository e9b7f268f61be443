// Parses server-sent events from bytes in arbitrary pieces.
#ifndef BOLE_CLIENTS_BENCH_SSE_READER_H_
#define BOLE_CLIENTS_BENCH_SSE_READER_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace bole::bench {

// Reads text/event-stream as the HTML standard defines it: lines end with LF,
// CR LF or CR, an empty line ends an event, and the lines of one event's data
// are joined with LF. Names, ids and comments are read and dropped, and so is
// an event that the end of the stream cuts off. Not thread-safe.
//
// COST: linear in the bytes; holds one event.
class SseReader {
 public:
  // Receives the data of an event, which is valid until it returns. An error
  // ends the reading.
  using OnData = std::function<absl::Status(std::string_view data)>;

  static constexpr size_t kMaxEventBytes = 16 << 20;

  // Takes the next bytes. Returns the first error of `on_data`, or
  // RESOURCE_EXHAUSTED for an event of more than kMaxEventBytes. It must not be
  // called again after an error.
  absl::Status Feed(std::string_view bytes, const OnData& on_data);

 private:
  absl::Status EndLine(std::string_view line, const OnData& on_data);

  std::string line_;  // The beginning of a line whose end has not arrived.
  std::string data_;  // The data of the lines of this event so far.
  bool has_data_ = false;
  bool after_cr_ = false;  // A LF that comes next belongs to the CR.
};

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_SSE_READER_H_
