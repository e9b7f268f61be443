// The log of a service, one line at a time.
#ifndef BOLE_COMMON_LOG_LOG_H_
#define BOLE_COMMON_LOG_LOG_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace bole {

enum class LogFormat {
  kText,  // "bole-scheduler: a worker is lost"
  kJson   // An object with time, level, service, message, and fields.
};

enum class LogLevel { kInfo, kWarning, kError };

using LogValue = std::variant<int64_t, double, std::string>;
// A field besides the message. As text it is name=value, quoted if necessary.
using LogField = std::pair<std::string_view, LogValue>;

// Writes whole lines to stderr, or to `out`: lines of several threads do not
// mix, and a text with line feeds stays on one line of its own. Thread-safe.
class Log {
 public:
  Log(LogFormat format, std::string service,
      std::function<void(const std::string& line)> out = nullptr);

  void Write(LogLevel level, std::string_view message,
             std::span<const LogField> fields = {}) const;
  // Writes at level kInfo.
  void Note(std::string_view message) const { Write(LogLevel::kInfo, message); }

 private:
  std::string TextLine(std::string_view message,
                       std::span<const LogField> fields) const;
  std::string JsonLine(LogLevel level, std::string_view message,
                       std::span<const LogField> fields) const;

  const LogFormat format_;
  const std::string service_;
  const std::function<void(const std::string& line)> out_;  // May be null.
};

}  // namespace bole

#endif  // BOLE_COMMON_LOG_LOG_H_
