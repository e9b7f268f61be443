// The formats that records of data files have.
#ifndef BOLE_CLIENTS_BENCH_RECORD_FORMATS_H_
#define BOLE_CLIENTS_BENCH_RECORD_FORMATS_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/bench/workload.h"
#include "nlohmann/json.hpp"

namespace bole::bench {

struct RecordFormat {
  const char* name;
  std::vector<const char*> fields;  // A record with all of them has the format.
  // The session of a record, or a part of one.
  absl::StatusOr<Session> (*decode)(const nlohmann::json& record);
  // Whether successive records with the same session name are its turns.
  bool turns_in_succession = false;
};

// The formats, in the order in which they are tried.
std::span<const RecordFormat> RecordFormats();

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_RECORD_FORMATS_H_
