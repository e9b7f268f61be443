#include "common/net/process_metrics.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "common/version.h"

namespace bole {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Values from /proc/self/stat. ReadStat() counts its fields from the fourth on,
// after the name and the state.
struct ProcessStat {
  double cpu_seconds = 0;
  double start_ticks = 0;  // Since the system booted.
  double resident_bytes = 0;
};

std::optional<ProcessStat> ReadStat() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  // The name may hold spaces and parentheses.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string state;
  fields >> state;
  std::vector<double> values((std::istream_iterator<double>(fields)), {});
  constexpr size_t kUserTicks = 10;
  constexpr size_t kSystemTicks = 11;
  constexpr size_t kStartTicks = 18;
  constexpr size_t kResidentPages = 20;
  if (values.size() <= kResidentPages) return std::nullopt;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  return ProcessStat{
      .cpu_seconds = (values[kUserTicks] + values[kSystemTicks]) / ticks,
      .start_ticks = values[kStartTicks],
      .resident_bytes = values[kResidentPages] * page};
}

// When the system was started, in seconds since 1970.
std::optional<double> BootTime() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    double value = 0;
    if (words >> key >> value && key == "btime") return value;
  }
  return std::nullopt;
}

std::optional<double> NumOpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return std::nullopt;
  // The folder itself is open while it is listed.
  return static_cast<double>(std::distance(begin(files), end(files)) - 1);
}

MetricFamily One(const char* name, const char* help, MetricType type,
                 double value) {
  ClientMetric metric;
  metric.gauge.value = value;
  metric.counter.value = value;
  return {.name = name, .help = help, .type = type, .metric = {metric}};
}

}  // namespace

ProcessMetrics::ProcessMetrics(std::string service)
    : service_(std::move(service)) {}

std::vector<MetricFamily> ProcessMetrics::Collect() const {
  MetricFamily build = One("bole_build_info",
                           "Always 1; the labels say which service this is, "
                           "and of which version.",
                           MetricType::Gauge, 1);
  build.metric[0].label = {{"service", service_}, {"version", kVersion}};
  std::vector<MetricFamily> families = {std::move(build)};
  if (const auto stat = ReadStat()) {
    families.push_back(
        One("process_cpu_seconds_total",
            "Processor time of the process, of all threads together.",
            MetricType::Counter, stat->cpu_seconds));
    families.push_back(One("process_resident_memory_bytes",
                           "Memory of the process that is in RAM.",
                           MetricType::Gauge, stat->resident_bytes));
    if (const auto boot = BootTime()) {
      const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
      families.push_back(One("process_start_time_seconds",
                             "When the process started, in seconds since 1970.",
                             MetricType::Gauge,
                             *boot + stat->start_ticks / ticks));
    }
  }
  if (const auto open = NumOpenFiles()) {
    families.push_back(One("process_open_fds", "Open file descriptors.",
                           MetricType::Gauge, *open));
  }
  families.push_back(
      One("process_max_fds", "The most file descriptors that may be open.",
          MetricType::Gauge, static_cast<double>(sysconf(_SC_OPEN_MAX))));
  return families;
}

}  // namespace bole
