// Keeps the last rounds of a service in memory, as numbers.
#ifndef BOLE_COMMON_FLIGHT_FLIGHT_RECORDER_H_
#define BOLE_COMMON_FLIGHT_FLIGHT_RECORDER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

namespace bole {

// What a number of a record means.
struct FlightField {
  const char* name;
  // The number counts units of 10^-decimals, and is written with a decimal
  // point.
  int decimals = 0;
  // If not empty, the number is an index into it, and that name is written.
  std::span<const char* const> names = {};
};

// A ring of records, each an array of numbers whose meaning is fixed. There is
// room for nothing else, so no text of a request can get into it.
//
// Only one thread may write at a time, and a change of the writer must order
// their writes. Any number of threads may read, and so may a signal handler:
// nobody waits for anybody. Readers skip a record that is being written.
//
// COST: of a record, an atomic store for each of its numbers.
class FlightRecorder {
 public:
  // The most bytes of a line.
  static constexpr size_t kMaxLine = 4096;

  // `fields` must outlive the recorder; their names are of a-z and '_'.
  // REQUIRES: capacity > 0, and a line of the longest numbers fits kMaxLine.
  FlightRecorder(std::span<const FlightField> fields, size_t capacity);

  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Replaces the oldest record once there are `capacity`. Returns the number of
  // the new one; they are numbered from 0 on.
  // REQUIRES: as many values as there are fields.
  uint64_t Add(std::span<const int64_t> values);
  // Overwrites the record of this number, unless it was replaced.
  void Amend(uint64_t number, std::span<const int64_t> values);

  size_t capacity() const { return capacity_; }
  // Records that were added so far.
  uint64_t num_added() const { return num_added_.load(); }
  uint64_t oldest() const {
    const uint64_t added = num_added();
    return added < capacity_ ? 0 : added - capacity_;
  }

  // Writes the record of this number into `line` as a JSON object and a line
  // feed, and returns its length; 0 if it is not there, or is being written.
  // Async-signal-safe.
  size_t FormatLine(uint64_t number, std::span<char, kMaxLine> line) const;

  // Every record that is there, oldest first.
  std::string ToJsonLines() const;

 private:
  void Write(uint64_t number, std::span<const int64_t> values);
  // False if the slot has another record, or it changed meanwhile.
  bool Read(uint64_t number, std::span<int64_t> values) const;

  const std::span<const FlightField> fields_;
  const size_t capacity_;
  std::atomic<uint64_t> num_added_{0};
  // A slot has three parts: its version, which is odd while somebody writes,
  // the number of its record, and the record itself.
  const size_t slot_words_;
  const std::unique_ptr<std::atomic<int64_t>[]> words_;
};

// A record's numbers, in the order of its fields. `Record` has no others.
template <typename Record>
std::span<const int64_t> NumbersOf(const Record& record) {
  static_assert(std::is_trivially_copyable_v<Record> &&
                sizeof(Record) % sizeof(int64_t) == 0 &&
                alignof(Record) == alignof(int64_t));
  return {reinterpret_cast<const int64_t*>(&record),
          sizeof(Record) / sizeof(int64_t)};
}

}  // namespace bole

#endif  // BOLE_COMMON_FLIGHT_FLIGHT_RECORDER_H_
