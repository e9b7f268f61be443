// What a scrape of a registry reads.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_SCRAPE_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_SCRAPE_H_

#include <map>
#include <regex>
#include <sstream>
#include <string>

#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"

namespace bole::testing {

// `name` without its label "model": "a" of "a{model=\"b\"}".
inline std::string WithoutModel(const std::string& name) {
  static const std::regex first("([{,])model=\"[^\"]*\",?");
  std::string rest = std::regex_replace(name, first, "$1");
  return std::regex_replace(rest, std::regex(",?\\{?,?\\}$"),
                            rest.find('=') == std::string::npos ? "" : "}");
}

// The value of every series, by its name and labels; and of those with a label
// for the model, the sum over all models, by its name and the other labels.
inline std::map<std::string, double> Scrape(
    const prometheus::Registry& registry) {
  std::istringstream text(
      prometheus::TextSerializer().Serialize(registry.Collect()));
  std::map<std::string, double> series;
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line.front() == '#') continue;
    const size_t space = line.rfind(' ');
    const std::string name = line.substr(0, space);
    const double value = std::stod(line.substr(space + 1));
    series[name] = value;
    const std::string summed = WithoutModel(name);
    if (summed != name) series[summed] += value;
  }
  return series;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_SCRAPE_H_
