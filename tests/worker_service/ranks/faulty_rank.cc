// A rank as a process, whose device breaks as the environment says:
// BOLE_TEST_FAULT is "error", "differ", "exit" or "load", and all but the last
// come in the second step.
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "kernels/reference/reference_backend.h"
#include "tests/worker_service/engine/faulty_backend.h"
#include "worker_service/ranks/rank_main.h"
#include "worker_service/ranks/ranked_model_options.h"

namespace {

using bole::testing::FaultyBackend;

// A process that ends in the middle of a step.
class ExitingBackend final : public bole::ReferenceBackend {
 public:
  explicit ExitingBackend(std::shared_ptr<bole::Communicator> ranks)
      : ReferenceBackend(/*num_threads=*/1, std::move(ranks)) {}

  absl::Status Sample(const bole::SampleParams& params) override {
    if (++num_steps_ == 2) std::_Exit(7);
    return ReferenceBackend::Sample(params);
  }

 private:
  int num_steps_ = 0;
};

absl::StatusOr<std::unique_ptr<bole::Backend>> MakeFaulty(
    const bole::RankedModelOptions& /*options*/,
    std::shared_ptr<bole::Communicator> ranks) {
  // Nobody writes the environment of this process.
  const char* const variable =
      std::getenv("BOLE_TEST_FAULT");  // NOLINT(concurrency-mt-unsafe)
  const std::string fault = variable == nullptr ? "" : variable;
  if (fault == "load") return absl::UnavailableError("no driver");
  if (fault == "exit") {
    return std::make_unique<ExitingBackend>(std::move(ranks));
  }
  auto backend = std::make_unique<FaultyBackend>(std::move(ranks));
  if (fault == "error") {
    backend->BreakAfter(/*good_steps=*/1, FaultyBackend::Fault::kError);
  } else if (fault == "differ") {
    backend->BreakAfter(/*good_steps=*/1, FaultyBackend::Fault::kDiffer);
  }
  return backend;
}

}  // namespace

int main(int argc, char** argv) {
  return bole::RunIfRankProcess(argc, argv, MakeFaulty).value_or(2);
}
