// Rounds that are captured before they come, on the demo model and a backend
// that keeps keys in the place of graphs.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "tests/worker_service/eval/demo_model.h"
#include "worker_service/engine.h"

namespace bole::testing_support {
namespace {

using Clock = std::chrono::steady_clock;

// Runs everything, as a set that has a graph would.
class KeySet final : public GraphSet {
 public:
  explicit KeySet(int capacity) : capacity_(capacity) {}

  int capacity() const override { return capacity_; }
  int64_t num_misses() const override { return num_misses_; }
  absl::Status Replay(const GraphKey& key,
                      const std::function<absl::Status()>& queue) override {
    if (keys_.insert(key).second) ++num_misses_;
    EXPECT_LE(std::ssize(keys_), capacity_);
    return queue();
  }

 private:
  const int capacity_;
  std::set<GraphKey> keys_;
  int64_t num_misses_ = 0;
};

class KeepingBackend final : public ReferenceBackend {
 public:
  KeepingBackend() : ReferenceBackend(/*num_threads=*/1) {}

  std::unique_ptr<GraphSet> MakeGraphs(int capacity) override {
    return std::make_unique<KeySet>(capacity);
  }
};

constexpr Clock::time_point kNever = Clock::time_point::max();

class EngineWarmUpTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    backend_ = new KeepingBackend;
    absl::StatusOr<LoadedModel> model = LoadModel("models/demo", *backend_);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = new LoadedModel(*std::move(model));
  }
  static void TearDownTestSuite() {
    delete model_;
    delete backend_;
  }

  static std::unique_ptr<Engine> MakeEngine(const GenerateOptions& options) {
    auto engine = Engine::Create(model_->config, *model_->weights, *backend_,
                                 EngineOptionsFor(options, /*max_context=*/200,
                                                  model_->num_valid_tokens()));
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

  // Texts of several lengths, of more requests than run together.
  static std::vector<std::vector<int32_t>> Texts(
      Engine& engine, const GenerateOptions& options) {
    const auto prompts = DemoModel::Get().Prompts();
    std::vector<GenerateRequest> requests(5);
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].prompt = prompts[i];
      requests[i].sampling.max_tokens = 3 + 4 * static_cast<int>(i);
      requests[i].sampling.temperature = i % 2 == 0 ? 0 : 0.7f;
    }
    const auto results = Generate(engine, options, requests, nullptr);
    EXPECT_TRUE(results.ok()) << results.status();
    std::vector<std::vector<int32_t>> texts;
    for (const GenerateResult& result : *results) {
      texts.push_back(Tokens(result));
    }
    return texts;
  }

  static KeepingBackend* backend_;
  static LoadedModel* model_;
};
KeepingBackend* EngineWarmUpTest::backend_ = nullptr;
LoadedModel* EngineWarmUpTest::model_ = nullptr;

TEST_F(EngineWarmUpTest, NoRoundOfAUsualSchedulerIsCapturedWhileItServes) {
  GenerateOptions options = Tree(9, 3);
  for (const int lease : {1, 4}) {
    options.lease_rounds = lease;
    const std::unique_ptr<Engine> cold = MakeEngine(options);
    const std::unique_ptr<Engine> warm = MakeEngine(options);
    std::vector<int> progress;

    const absl::Status status = warm->WarmUp(kNever, [&](int done, int total) {
      progress.push_back(done);
      EXPECT_LE(done, total);
    });

    ASSERT_TRUE(status.ok()) << status;
    EXPECT_GT(progress.size(), 5u);
    EXPECT_EQ(warm->graph_misses(), 0);
    // Slots and pages were not touched.
    EXPECT_EQ(Texts(*warm, options), Texts(*cold, options));
    EXPECT_EQ(warm->graph_misses(), 0);
    EXPECT_GT(cold->graph_misses(), 0);
  }
}

TEST_F(EngineWarmUpTest, StopsAtItsDeadline) {
  const GenerateOptions options = Tree(9, 3);
  const std::unique_ptr<Engine> engine = MakeEngine(options);

  const absl::Status status = engine->WarmUp(
      Clock::now(), [](int, int) { ADD_FAILURE() << "too late"; });

  EXPECT_TRUE(status.ok()) << status;
  Texts(*engine, options);
  EXPECT_GT(engine->graph_misses(), 0);
}

TEST_F(EngineWarmUpTest, ABackendWithoutGraphsHasNothingToDo) {
  EngineOptions options =
      EngineOptionsFor(Tree(9, 3), 200, model_->num_valid_tokens());
  options.graphs = false;
  const auto engine =
      Engine::Create(model_->config, *model_->weights, *backend_, options);
  ASSERT_TRUE(engine.ok()) << engine.status();

  const absl::Status status = (*engine)->WarmUp(
      kNever, [](int, int) { ADD_FAILURE() << "nothing to capture"; });

  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ((*engine)->num_graphs(), 0);
}

}  // namespace
}  // namespace bole::testing_support
