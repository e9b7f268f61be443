// Names and values in two columns.
#ifndef BOLE_CLIENTS_CLI_TABLE_H_
#define BOLE_CLIENTS_CLI_TABLE_H_

#include <span>
#include <string>

namespace bole {

struct TableRow {
  std::string name;
  std::string value;
};

// A line for each row, values below each other, 22 columns in.
std::string FormatTable(std::span<const TableRow> rows);

// `value` with `decimals` digits behind the point.
std::string FixedPoint(double value, int decimals);

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_TABLE_H_
