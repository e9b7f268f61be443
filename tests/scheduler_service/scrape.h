// What a scrape of a registry reads.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_SCRAPE_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_SCRAPE_H_

#include <map>
#include <sstream>
#include <string>

#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"

namespace bole::testing {

// The value of every series, by its name and labels.
inline std::map<std::string, double> Scrape(
    const prometheus::Registry& registry) {
  std::istringstream text(
      prometheus::TextSerializer().Serialize(registry.Collect()));
  std::map<std::string, double> series;
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line.front() == '#') continue;
    const size_t space = line.rfind(' ');
    series[line.substr(0, space)] = std::stod(line.substr(space + 1));
  }
  return series;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_SCRAPE_H_
