// The core of a linear layer on the CPU on one thread: a tree by each solver,
// the serial one as the baseline, a prompt, and one step of decoding. All times
// are of one key head with the two value heads that read it, of dimension 128.
#include <random>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "common/thread_pool.h"
#include "kernels/gdn.h"
#include "kernels/reference/gdn_core.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/random_forest.h"

namespace bole {
namespace {

using ::bole::testing::ChainParents;
using ::bole::testing::CommitSomething;
using ::bole::testing::Decay;
using ::bole::testing::GdnProblem;
using ::bole::testing::HostBatch;
using ::bole::testing::PackTrees;
using ::bole::testing::Parents;
using ::bole::testing::RandomParents;

// The heads of the 4B and 9B models.
constexpr GdnShape kShape = {.key_heads = 1,
                             .value_heads = 2,
                             .key_dim = 128,
                             .value_dim = 128,
                             .conv_taps = 4};

GdnProblem MakeProblem(int num_nodes, bool chain) {
  std::mt19937 rng(1);
  const std::vector<Parents> trees = {
      chain ? ChainParents(num_nodes)
            : RandomParents(rng, {.num_nodes = num_nodes, .max_depth = 8})};
  HostBatch batch = PackTrees(trees, {.chains = chain});
  CommitSomething(rng, 1, batch);
  return GdnProblem(rng,
                    {.shape = kShape, .spare_slots = 0, .decay = Decay::kMild},
                    std::move(batch));
}

void Verify(benchmark::State& state, TreeSolver solver) {
  ThreadPool pool(1);
  GdnProblem problem =
      MakeProblem(static_cast<int>(state.range(0)), /*chain=*/false);
  const GdnCoreParams params = problem.Core(0, solver);
  for (auto _ : state) reference::GdnVerify(params, pool);
}

void Prefill(benchmark::State& state) {
  ThreadPool pool(1);
  GdnProblem problem =
      MakeProblem(static_cast<int>(state.range(0)), /*chain=*/true);
  const GdnCoreParams params = problem.Core(0);
  for (auto _ : state) reference::GdnPrefill(params, pool);
}

void Decode(benchmark::State& state) {
  ThreadPool pool(1);
  GdnProblem problem = MakeProblem(1, /*chain=*/false);
  const GdnCoreParams params = problem.Core(0);
  for (auto _ : state) reference::GdnDecode(params, pool);
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(8)->Arg(32)->Arg(128)->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(Verify, serial, TreeSolver::kSerial)->Apply(Sizes);
BENCHMARK_CAPTURE(Verify, blocks, TreeSolver::kBlocks)->Apply(Sizes);
BENCHMARK_CAPTURE(Verify, neumann, TreeSolver::kNeumann)->Apply(Sizes);
BENCHMARK(Prefill)->Arg(64)->Arg(512)->Unit(benchmark::kMicrosecond);
BENCHMARK(Decode)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace bole
