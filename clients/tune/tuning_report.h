// The report of `bole tune`.
#ifndef BOLE_CLIENTS_TUNE_TUNING_REPORT_H_
#define BOLE_CLIENTS_TUNE_TUNING_REPORT_H_

#include <span>
#include <string>
#include <vector>

#include "clients/tune/tuning.h"
#include "nlohmann/json.hpp"

namespace bole::tune {

// The loads under one acceptance.
struct TuningTable {
  std::string acceptance;  // AcceptanceProfile::name
  std::vector<LoadRow> loads;
};

struct TuningReport {
  std::string machine;
  LoadOptions options;
  std::vector<Setting> settings;  // The columns of all tables.
  std::vector<TuningTable> tables;
};

// One page for people: tables in which the best setting of each load is marked,
// and the scheduler's flags for it.
std::string TuningText(const TuningReport& report);

// A chart for each table: how many times as fast as plain decoding each
// setting is, by requests.
std::string TuningSvg(const TuningReport& report);

nlohmann::ordered_json TuningJson(const TuningReport& report);

}  // namespace bole::tune

#endif  // BOLE_CLIENTS_TUNE_TUNING_REPORT_H_
