#include "common/tokenizer/utf8.h"

#include <algorithm>

namespace bole {
namespace {

// What may follow a leading byte: how many bytes in all, and the range of the
// second one, which excludes overlong forms, surrogates and what lies above
// U+10FFFF. All later bytes are 0x80..0xBF.
struct LeadByte {
  int size;  // 0: no character starts so.
  uint8_t second_min;
  uint8_t second_max;
};

LeadByte Classify(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Scan ScanUtf8(std::string_view bytes) {
  using Kind = Utf8Scan::Kind;
  const LeadByte lead = Classify(static_cast<uint8_t>(bytes[0]));
  if (lead.size == 0) return {Kind::kInvalid, 1};
  for (int i = 1; i < lead.size; ++i) {
    if (static_cast<size_t>(i) == bytes.size()) return {Kind::kIncomplete, i};
    const uint8_t byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {Kind::kInvalid, i};
  }
  return {Kind::kValid, lead.size};
}

size_t AppendCompleteUtf8(std::string_view bytes, std::string* out) {
  size_t done = 0;
  size_t copied = 0;
  while (done < bytes.size()) {
    const Utf8Scan scan = ScanUtf8(bytes.substr(done));
    if (scan.kind == Utf8Scan::Kind::kIncomplete) break;
    if (scan.kind == Utf8Scan::Kind::kInvalid) {
      out->append(bytes.substr(copied, done - copied));
      out->append(kReplacementCharacter);
      copied = done + scan.size;
    }
    done += scan.size;
  }
  out->append(bytes.substr(copied, done - copied));
  return done;
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  if (AppendCompleteUtf8(bytes, &out) < bytes.size()) {
    out.append(kReplacementCharacter);
  }
  return out;
}

bool IsValidUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Utf8Scan scan = ScanUtf8(bytes);
    if (scan.kind != Utf8Scan::Kind::kValid) return false;
    bytes.remove_prefix(scan.size);
  }
  return true;
}

bool IsAscii(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x80;
  });
}

void AppendCodePoint(uint32_t code_point, std::string* out) {
  const auto push = [out](uint32_t byte) {
    out->push_back(static_cast<char>(byte));
  };
  const auto push_tail = [&](int shift) {
    push(0x80 | ((code_point >> shift) & 0x3F));
  };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0 | (code_point >> 6));
    push_tail(0);
  } else if (code_point < 0x10000) {
    push(0xE0 | (code_point >> 12));
    push_tail(6);
    push_tail(0);
  } else {
    push(0xF0 | (code_point >> 18));
    push_tail(12);
    push_tail(6);
    push_tail(0);
  }
}

uint32_t DecodeCodePoint(std::string_view bytes, int size) {
  const auto byte = [&](int i) {
    return static_cast<uint32_t>(static_cast<uint8_t>(bytes[i]));
  };
  if (size == 1) return byte(0);
  uint32_t code_point = byte(0) & (0xFF >> (size + 1));
  for (int i = 1; i < size; ++i) {
    code_point = code_point << 6 | (byte(i) & 0x3F);
  }
  return code_point;
}

}  // namespace bole
