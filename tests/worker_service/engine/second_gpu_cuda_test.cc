// An engine on another GPU than the first. Skips with fewer than two.
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/worker_service/eval/demo_model.h"
#include "worker_service/engine/engine.h"
#include "worker_service/eval/generator.h"
#include "worker_service/loading/loaded_model.h"

namespace bole::testing_support {
namespace {

// An engine and all that it needs, freed in the right order.
struct Replica {
  std::unique_ptr<cuda::CudaBackend> backend;
  LoadedModel model;
  std::unique_ptr<Engine> engine;
};

const GenerateOptions kOptions = Tree(/*draft_nodes=*/20, /*max_batch=*/2);

std::unique_ptr<Replica> MakeOn(int device) {
  auto replica = std::make_unique<Replica>();
  auto backend = cuda::CudaBackend::Create(device, ElementType::kFloat32);
  EXPECT_TRUE(backend.ok()) << backend.status();
  replica->backend = *std::move(backend);
  auto model = LoadModel("models/demo", *replica->backend);
  EXPECT_TRUE(model.ok()) << model.status();
  replica->model = *std::move(model);
  auto engine = Engine::Create(
      replica->model.config, *replica->model.weights, *replica->backend,
      EngineOptionsFor(kOptions, /*max_context=*/256,
                       replica->model.num_valid_tokens()));
  EXPECT_TRUE(engine.ok()) << engine.status();
  replica->engine = *std::move(engine);
  return replica;
}

std::vector<std::vector<int32_t>> Answers(Replica& replica) {
  std::vector<GenerateRequest> requests(2);
  requests[0].prompt = {10, 20, 30, 40};
  requests[1].prompt = {50, 60, 70};
  for (GenerateRequest& request : requests) {
    request.sampling.temperature = 0;
    request.sampling.max_tokens = 32;
  }
  const auto results = Generate(*replica.engine, kOptions, requests, nullptr);
  EXPECT_TRUE(results.ok()) << results.status();
  std::vector<std::vector<int32_t>> tokens;
  if (!results.ok()) return tokens;
  for (const GenerateResult& result : *results) {
    tokens.push_back(Tokens(result));
  }
  return tokens;
}

TEST(SecondGpuTest, AnotherThreadStepsOnItAsOnTheFirst) {
  const absl::Status second = cuda::CheckDevice(1);
  if (!second.ok()) GTEST_SKIP() << second.message();
  const std::unique_ptr<Replica> first_gpu = MakeOn(0);
  const std::unique_ptr<Replica> second_gpu = MakeOn(1);

  // This thread loaded both, and used the second last.
  const std::vector<std::vector<int32_t>> want = Answers(*first_gpu);
  std::vector<std::vector<int32_t>> got;
  std::thread([&] { got = Answers(*second_gpu); }).join();

  ASSERT_EQ(want.size(), 2u);
  EXPECT_GT(want[0].size(), 0u);
  EXPECT_EQ(got, want);
  EXPECT_EQ(Answers(*second_gpu), want);  // Back on this thread.
}

}  // namespace
}  // namespace bole::testing_support
