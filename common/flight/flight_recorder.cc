#include "common/flight/flight_recorder.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/check.h"
#include "common/flight/signal_safe_text.h"

namespace bole {
namespace {

// Before the numbers of a slot.
constexpr size_t kVersion = 0;
constexpr size_t kNumber = 1;
constexpr size_t kFirstValue = 2;

// A handler reads into an array of its own.
constexpr size_t kMaxFields = 64;

// Quotes, colon and comma; a sign, 19 digits and a point.
constexpr size_t kAroundValue = 4 + 21;

size_t LongestLine(std::span<const FlightField> fields) {
  size_t length = 2 * kAroundValue;  // The number, braces, line feed.
  for (const FlightField& field : fields) {
    size_t value = 0;
    for (const char* name : field.names) {
      value = std::max(value, std::strlen(name) + 2);
    }
    length += std::strlen(field.name) + kAroundValue + value;
  }
  return length;
}

void AppendValue(const FlightField& field, int64_t value,
                 SignalSafeText& text) {
  if (field.names.empty()) {
    text.AppendDecimal(value, field.decimals);
  } else if (value >= 0 && value < static_cast<int64_t>(field.names.size())) {
    text.Append("\"");
    text.Append(field.names[static_cast<size_t>(value)]);
    text.Append("\"");
  } else {
    text.Append("null");
  }
}

}  // namespace

FlightRecorder::FlightRecorder(std::span<const FlightField> fields,
                               size_t capacity)
    : fields_(fields),
      capacity_(capacity),
      slot_words_(kFirstValue + fields.size()),
      words_(new std::atomic<int64_t>[capacity * slot_words_]()) {
  BOLE_CHECK(capacity > 0 && fields.size() <= kMaxFields);
  BOLE_CHECK(LongestLine(fields) <= kMaxLine);
}

uint64_t FlightRecorder::Add(std::span<const int64_t> values) {
  const uint64_t number = num_added_.load(std::memory_order_relaxed);
  Write(number, values);
  num_added_.store(number + 1);
  return number;
}

void FlightRecorder::Amend(uint64_t number, std::span<const int64_t> values) {
  if (number >= oldest() && number < num_added()) Write(number, values);
}

void FlightRecorder::Write(uint64_t number, std::span<const int64_t> values) {
  BOLE_CHECK(values.size() == fields_.size());
  std::atomic<int64_t>* const slot = &words_[number % capacity_ * slot_words_];
  const int64_t version = slot[kVersion].load(std::memory_order_relaxed);
  slot[kVersion].store(version + 1, std::memory_order_relaxed);
  // Whoever sees one of the stores below sees that the version is odd, or was.
  std::atomic_thread_fence(std::memory_order_release);
  slot[kNumber].store(static_cast<int64_t>(number), std::memory_order_relaxed);
  for (size_t i = 0; i < values.size(); ++i) {
    slot[kFirstValue + i].store(values[i], std::memory_order_relaxed);
  }
  slot[kVersion].store(version + 2, std::memory_order_release);
}

bool FlightRecorder::Read(uint64_t number, std::span<int64_t> values) const {
  const std::atomic<int64_t>* const slot =
      &words_[number % capacity_ * slot_words_];
  const int64_t version = slot[kVersion].load(std::memory_order_acquire);
  const int64_t there = slot[kNumber].load(std::memory_order_relaxed);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = slot[kFirstValue + i].load(std::memory_order_relaxed);
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  const bool same = slot[kVersion].load(std::memory_order_relaxed) == version;
  return version > 0 && version % 2 == 0 && same &&
         there == static_cast<int64_t>(number);
}

size_t FlightRecorder::FormatLine(uint64_t number,
                                  std::span<char, kMaxLine> line) const {
  std::array<int64_t, kMaxFields> room;
  const std::span<int64_t> values =
      std::span<int64_t>(room).first(fields_.size());
  if (!Read(number, values)) return 0;
  SignalSafeText text(line);
  text.Append("{\"n\":");
  text.AppendDecimal(static_cast<int64_t>(number), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    text.Append(",\"");
    text.Append(fields_[i].name);
    text.Append("\":");
    AppendValue(fields_[i], values[i], text);
  }
  text.Append("}\n");
  return text.size();
}

std::string FlightRecorder::ToJsonLines() const {
  std::string lines;
  std::array<char, kMaxLine> line;
  const uint64_t end = num_added();
  for (uint64_t number = oldest(); number < end; ++number) {
    lines.append(line.data(), FormatLine(number, line));
  }
  return lines;
}

}  // namespace bole
