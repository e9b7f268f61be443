#include "common/trace/trace_context.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <span>

namespace bole {
namespace {

// Where the fields of "00-TRACE-SPAN-FLAGS" begin.
constexpr size_t kTraceAt = 3;
constexpr size_t kSpanAt = 36;
constexpr size_t kFlagsAt = 53;
constexpr size_t kLength = 55;

constexpr uint8_t kSampledFlag = 1;
constexpr uint8_t kNoVersion = 0xff;

constexpr char kDigits[] = "0123456789abcdef";

std::optional<uint8_t> DigitOf(char c) {
  if (c >= '0' && c <= '9') return static_cast<uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<uint8_t>(c - 'a' + 10);
  return std::nullopt;
}

// Two digits for each byte, from `at` on. REQUIRES: they are within `text`.
bool ReadHex(std::string_view text, size_t at, std::span<uint8_t> bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto high = DigitOf(text[at + 2 * i]);
    const auto low = DigitOf(text[at + 2 * i + 1]);
    if (!high || !low) return false;
    bytes[i] = static_cast<uint8_t>(*high << 4 | *low);
  }
  return true;
}

std::string HexOf(std::span<const uint8_t> bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0xf];
  }
  return text;
}

bool IsZero(std::span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](uint8_t byte) { return byte == 0; });
}

template <typename Id>
Id NewId() {
  thread_local std::mt19937_64 random = [] {
    std::random_device device;
    std::seed_seq seeds{device(), device(), device(), device()};
    return std::mt19937_64(seeds);
  }();
  Id id;
  do {
    for (uint8_t& byte : id) byte = static_cast<uint8_t>(random());
  } while (IsZero(id));
  return id;
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view header) {
  if (header.size() < kLength) return std::nullopt;
  for (const size_t dash : {kTraceAt - 1, kSpanAt - 1, kFlagsAt - 1}) {
    if (header[dash] != '-') return std::nullopt;
  }
  TraceContext context;
  uint8_t version = 0;
  uint8_t flags = 0;
  if (!ReadHex(header, 0, {&version, 1}) ||
      !ReadHex(header, kTraceAt, context.trace_id) ||
      !ReadHex(header, kSpanAt, context.span_id) ||
      !ReadHex(header, kFlagsAt, {&flags, 1})) {
    return std::nullopt;
  }
  if (version == kNoVersion || IsZero(context.trace_id) ||
      IsZero(context.span_id)) {
    return std::nullopt;
  }
  // A later version may say more after another dash.
  const bool has_more = header.size() > kLength;
  if (has_more && (version == 0 || header[kLength] != '-')) return std::nullopt;
  context.sampled = (flags & kSampledFlag) != 0;
  return context;
}

std::string ToTraceparent(const TraceContext& context) {
  return "00-" + ToHex(context.trace_id) + "-" + ToHex(context.span_id) +
         (context.sampled ? "-01" : "-00");
}

std::string ToHex(const TraceId& id) { return HexOf(id); }

std::string ToHex(const SpanId& id) { return HexOf(id); }

TraceId NewTraceId() { return NewId<TraceId>(); }

SpanId NewSpanId() { return NewId<SpanId>(); }

bool IsSampled(const TraceId& id, double rate) {
  // The last bytes are those that are random with every maker of ids.
  uint64_t value = 0;
  for (size_t i = id.size() - 8; i < id.size(); ++i) value = value << 8 | id[i];
  constexpr double kAll = 18446744073709551616.0;  // 2^64.
  return rate >= 1 || static_cast<double>(value) < rate * kAll;
}

}  // namespace bole
