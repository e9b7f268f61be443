#include "common/log/log.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <ctime>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

using Json = nlohmann::ordered_json;

const char* NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "";
}

// By RFC 3339, in UTC: "2026-11-28T07:05:12.345678Z".
std::string Now() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts;
  gmtime_r(&now.tv_sec, &parts);
  std::array<char, 32> text;
  const size_t length =
      std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return absl::StrFormat("%s.%06dZ", std::string(text.data(), length),
                         now.tv_nsec / 1000);
}

std::string Dump(const Json& json) {
  return json.dump(/*indent=*/-1, /*indent_char=*/' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace);
}

bool IsPlain(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' ||
           c == '_' || c == '-' || c == ':' || c == '/';
  });
}

struct TextOf {
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const {
    return absl::StrFormat("%.6f", value);
  }
  std::string operator()(const std::string& value) const {
    return IsPlain(value) ? value : Dump(value);
  }
};

struct JsonOf {
  Json operator()(int64_t value) const { return value; }
  Json operator()(double value) const { return value; }
  Json operator()(const std::string& value) const { return value; }
};

}  // namespace

Log::Log(LogFormat format, std::string service,
         std::function<void(const std::string& line)> out)
    : format_(format), service_(std::move(service)), out_(std::move(out)) {}

void Log::Write(LogLevel level, std::string_view message,
                std::span<const LogField> fields) const {
  const std::string line = format_ == LogFormat::kText
                               ? TextLine(message, fields)
                               : JsonLine(level, message, fields);
  if (out_) return out_(line);
  // One call, which locks stderr.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::string Log::TextLine(std::string_view message,
                          std::span<const LogField> fields) const {
  std::string line = service_ + ": ";
  line += message;
  for (const auto& [name, value] : fields) {
    line += ' ';
    line += name;
    line += '=';
    line += std::visit(TextOf(), value);
  }
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line + '\n';
}

std::string Log::JsonLine(LogLevel level, std::string_view message,
                          std::span<const LogField> fields) const {
  Json json = {{"time", Now()},
               {"level", NameOf(level)},
               {"service", service_},
               {"message", message}};
  for (const auto& [name, value] : fields) {
    json[std::string(name)] = std::visit(JsonOf(), value);
  }
  return Dump(json) + '\n';
}

}  // namespace bole
