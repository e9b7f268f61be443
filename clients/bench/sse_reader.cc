#include "clients/bench/sse_reader.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole::bench {

absl::Status SseReader::Feed(std::string_view bytes, const OnData& on_data) {
  while (!bytes.empty()) {
    if (after_cr_ && bytes.front() == '\n') bytes.remove_prefix(1);
    after_cr_ = false;
    const size_t end = bytes.find_first_of("\r\n");
    if (line_.size() + data_.size() + bytes.substr(0, end).size() >
        kMaxEventBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("an event is longer than ", kMaxEventBytes, " bytes"));
    }
    if (end == std::string_view::npos) {
      line_.append(bytes);
      return absl::OkStatus();
    }
    after_cr_ = bytes[end] == '\r';
    const std::string_view rest = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    if (line_.empty()) {
      BOLE_RETURN_IF_ERROR(EndLine(rest, on_data));
    } else {
      line_.append(rest);
      BOLE_RETURN_IF_ERROR(EndLine(line_, on_data));
      line_.clear();
    }
  }
  return absl::OkStatus();
}

absl::Status SseReader::EndLine(std::string_view line, const OnData& on_data) {
  if (line.empty()) {
    if (!has_data_) return absl::OkStatus();
    has_data_ = false;
    absl::Status status = on_data(data_);
    data_.clear();
    return status;
  }
  const size_t colon = line.find(':');
  if (line.substr(0, colon) != "data") return absl::OkStatus();
  std::string_view value =
      colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (has_data_) data_ += '\n';
  has_data_ = true;
  data_.append(value);
  return absl::OkStatus();
}

}  // namespace bole::bench
