// A table that is read gives a time for any round, and is read again from what
// it is written as.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/cost_table.h"
#include "common/step_costs.h"

namespace bole {
namespace {

void CheckTimes(const StepCosts& costs) {
  for (const double value : {0.0, 1.0, 7.0, 4096.0, 1e9}) {
    RoundQuantities quantities;
    quantities.fill(value);
    const auto time = costs.TimeOf(quantities);
    BOLE_CHECK(time.count() >= 0 && time <= StepCosts::kMaxTime);
  }
}

}  // namespace
}  // namespace bole

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<bole::CostTable> table = bole::ParseCostTable(text);
  if (!table.ok()) return 0;
  bole::CheckTimes(table->costs);
  const absl::StatusOr<bole::CostTable> again =
      bole::ParseCostTable(bole::ToJson(*table));
  BOLE_CHECK(again.ok());
  BOLE_CHECK(again->of == table->of);
  return 0;
}
