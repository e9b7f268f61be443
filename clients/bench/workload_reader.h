// Reads data files as workloads. The formats are told apart by the fields of
// the first record; clients/README.md lists them.
#ifndef BOLE_CLIENTS_BENCH_WORKLOAD_READER_H_
#define BOLE_CLIENTS_BENCH_WORKLOAD_READER_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "clients/bench/workload.h"

namespace bole::bench {

// The workload in `text`, the contents of a file called `name`.
//
// INVALID_ARGUMENT, with the number of the record and the field: the format is
// unknown, a field is missing or of a wrong type, or there are no prompts.
absl::StatusOr<Workload> ParseWorkload(std::string_view text,
                                       const std::string& name);

// Reads and parses the file at `path`, or stdin for "-". Errors begin with the
// path.
absl::StatusOr<Workload> ReadWorkload(const std::string& path);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_WORKLOAD_READER_H_
