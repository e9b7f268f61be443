#include "clients/cli/table.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace bole {

std::string FormatTable(std::span<const TableRow> rows) {
  constexpr size_t kValueColumn = 22;
  std::string table;
  for (const TableRow& row : rows) {
    std::string line = row.name;
    line.resize(std::max(kValueColumn, row.name.size() + 1), ' ');
    table += line + row.value + "\n";
  }
  return table;
}

std::string FixedPoint(double value, int decimals) {
  char text[400];  // The largest double has 309 digits before the point.
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  return text;
}

}  // namespace bole
