// How an engine is fitted to a device, on the demo model.
#include "worker_service/engine/engine_sizes.h"

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/scratch_meter.h"
#include "worker_service/loading/loaded_model.h"

namespace bole {
namespace {

using ::testing::HasSubstr;

constexpr size_t kGiB = size_t{1} << 30;

// Sampling needs 7 bytes for each of its rows.
class RowMeter final : public ScratchMeter {
 public:
  using ScratchMeter::ScratchMeter;
  absl::Status Sample(const SampleParams& params) override {
    return Note(size_t{7} * params.batch.rows.max);
  }
};

// A CPU backend that reports device memory and whose operators need scratch.
class SizedBackend final : public ReferenceBackend {
 public:
  SizedBackend() : ReferenceBackend(/*num_threads=*/1) {}
  std::optional<MemoryState> memory() const override { return state; }
  std::unique_ptr<ScratchMeter> MakeScratchMeter() const override {
    return std::make_unique<RowMeter>(rank());
  }
  absl::Status ReserveScratch(size_t bytes) override {
    reserved = bytes;
    return absl::OkStatus();
  }

  std::optional<MemoryState> state;
  size_t reserved = 0;
};

class EngineSizesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    backend_ = new SizedBackend;
    absl::StatusOr<LoadedModel> model = LoadModel("models/demo", *backend_);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = new LoadedModel(*std::move(model));
  }
  static void TearDownTestSuite() {
    delete model_;
    delete backend_;
  }
  void SetUp() override {
    backend_->state =
        MemoryState{.free_bytes = 5 * kGiB, .total_bytes = 8 * kGiB};
  }

  absl::StatusOr<PlannedEngine> Fit(const EngineOptions& options,
                                    double fraction = 0.9) {
    return FitToDevice(options, *model_, *backend_, fraction);
  }

  static SizedBackend* backend_;
  static LoadedModel* model_;
};
SizedBackend* EngineSizesTest::backend_ = nullptr;
LoadedModel* EngineSizesTest::model_ = nullptr;

TEST_F(EngineSizesTest, AHostsMemoryGivesTheSizesOfACpu) {
  backend_->state.reset();

  const absl::StatusOr<PlannedEngine> planned = Fit(DefaultEngineOptions());

  ASSERT_TRUE(planned.ok()) << planned.status();
  const EngineOptions cpu = FitToModel(DefaultEngineOptions(), *model_);
  EXPECT_EQ(planned->options.num_pages, cpu.num_pages);
  EXPECT_EQ(planned->options.max_context, cpu.max_context);
  EXPECT_EQ(planned->options.max_requests, cpu.max_requests);
  EXPECT_EQ(planned->memory.device, 0u);
  EXPECT_EQ(planned->memory.set_aside, 0u);
}

TEST_F(EngineSizesTest, ThePlanIsWhatAnEngineAllocates) {
  EngineOptions options = DefaultEngineOptions();
  options.max_context = 2048;
  options.max_nodes = 64;
  options.max_requests = 2;
  options.num_pages = 50;
  const absl::StatusOr<PlannedEngine> planned = Fit(options);
  ASSERT_TRUE(planned.ok()) << planned.status();

  const auto engine = Engine::Create(model_->config, *model_->weights,
                                     *backend_, planned->options);

  ASSERT_TRUE(engine.ok()) << engine.status();
  const EngineMemory& used = (*engine)->memory_use();
  EXPECT_EQ(planned->memory.states, used.states);
  EXPECT_EQ(planned->memory.kv_pages, used.pages);
  EXPECT_EQ(planned->memory.factors, used.factors);
  EXPECT_EQ(planned->memory.logits, used.logits);
  EXPECT_EQ(planned->memory.buffers, used.buffers);
  // There are logits for 64 nodes and for the last row of each request's chunk.
  EXPECT_EQ(used.logits, 66u * model_->config.vocab_size * sizeof(float));
}

TEST_F(EngineSizesTest, ScratchIsPlannedAndReserved) {
  EngineOptions options = DefaultEngineOptions();
  options.max_context = 2048;
  options.max_nodes = 96;
  options.max_requests = 2;
  options.num_pages = 50;
  const absl::StatusOr<PlannedEngine> planned = Fit(options);
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(planned->memory.scratch, 7u * 96);
  EXPECT_THAT(ToString(planned->memory), HasSubstr("scratch"));

  const auto engine = Engine::Create(model_->config, *model_->weights,
                                     *backend_, planned->options);

  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ(backend_->reserved, planned->memory.scratch);
}

TEST_F(EngineSizesTest, GraphsTakeMemoryFromPages) {
  EngineOptions options = DefaultEngineOptions();
  options.num_slots = 1024;
  options.num_checkpoints = 0;
  options.max_requests = 8;
  options.max_nodes = 64;
  const absl::StatusOr<PlannedEngine> with = Fit(options);
  options.graphs = false;
  const absl::StatusOr<PlannedEngine> without = Fit(options);

  ASSERT_TRUE(with.ok()) << with.status();
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_GT(with->memory.set_aside, without->memory.set_aside);
  EXPECT_LT(with->options.num_pages, without->options.num_pages);
}

TEST_F(EngineSizesTest, WhatIsLeftBecomesPages) {
  EngineOptions options = DefaultEngineOptions();
  options.num_slots = 1024;
  options.max_requests = 8;
  options.max_nodes = 64;
  backend_->state->free_bytes = 8 * kGiB;

  const absl::StatusOr<PlannedEngine> planned = Fit(options);

  ASSERT_TRUE(planned.ok()) << planned.status();
  const MemoryPlan& plan = planned->memory;
  const size_t page = plan.kv_pages / planned->options.num_pages;
  EXPECT_LE(plan.total(), plan.usable);
  EXPECT_GT(plan.total() + page, plan.usable);
  // A tenth of the memory is left free. The weights are already allocated.
  EXPECT_EQ(plan.usable,
            plan.weights + 8 * kGiB -
                static_cast<size_t>((1 - 0.9) * static_cast<double>(8 * kGiB)));
  EXPECT_THAT(ToString(plan), HasSubstr("usable"));
}

// Checkpoints get a quarter of what would otherwise become pages.
TEST_F(EngineSizesTest, CheckpointsGetTheirShare) {
  EngineOptions options = DefaultEngineOptions();
  options.num_slots = 1024;
  options.max_requests = 8;
  options.max_nodes = 64;
  const absl::StatusOr<PlannedEngine> chosen = Fit(options);
  options.num_checkpoints = 0;
  const absl::StatusOr<PlannedEngine> none = Fit(options);
  options.num_checkpoints = 7;
  const absl::StatusOr<PlannedEngine> seven = Fit(options);
  options.num_slots = 2;
  options.num_checkpoints = kChooseCheckpoints;
  const absl::StatusOr<PlannedEngine> few_slots = Fit(options);

  ASSERT_TRUE(chosen.ok()) << chosen.status();
  ASSERT_TRUE(none.ok()) << none.status();
  ASSERT_TRUE(seven.ok()) << seven.status();
  ASSERT_TRUE(few_slots.ok()) << few_slots.status();
  EXPECT_EQ(none->options.TotalSlots(), 1024);
  EXPECT_EQ(seven->options.TotalSlots(), 1031);
  EXPECT_EQ(seven->memory.states - none->memory.states,
            7 * none->memory.slot_bytes());
  const double of_pages = static_cast<double>(none->memory.kv_pages);
  const double given =
      static_cast<double>(chosen->memory.states - none->memory.states);
  EXPECT_NEAR(given / of_pages, kCheckpointShare, 0.03);
  EXPECT_LE(chosen->memory.total(), chosen->memory.usable);
  EXPECT_EQ(chosen->memory.num_checkpoints, chosen->options.num_checkpoints);
  EXPECT_EQ(few_slots->options.num_checkpoints, 2 * kMostCheckpointsOfSlot);
  EXPECT_THAT(ToString(seven->memory),
              HasSubstr("(1024 slots and 7 for checkpoints)"));
}

TEST_F(EngineSizesTest, TheHostsPlacesTakeWhatTheFlagSays) {
  EngineOptions options = DefaultEngineOptions();
  options.host_cache_gb = 0.5;
  for (const bool on_gpu : {true, false}) {
    if (!on_gpu) backend_->state.reset();
    const absl::StatusOr<PlannedEngine> planned = Fit(options);
    ASSERT_TRUE(planned.ok()) << planned.status();
    const MemoryPlan& plan = planned->memory;
    const auto slots = static_cast<size_t>(planned->options.num_host_slots);
    const auto pages = static_cast<size_t>(planned->options.num_host_pages);
    EXPECT_EQ(slots, kGiB / 8 / plan.slot_bytes());
    EXPECT_EQ(pages, kGiB * 3 / 8 / plan.page_bytes());
    EXPECT_EQ(plan.host_cache,
              slots * plan.slot_bytes() + pages * plan.page_bytes());
    EXPECT_THAT(ToString(plan), HasSubstr("; on the host, pinned "));
  }

  options.host_cache_gb = 1e-4;
  EXPECT_THAT(Fit(options).status().ToString(),
              HasSubstr("--host-cache-gb is 0.0001, a quarter of which holds"));
}

TEST_F(EngineSizesTest, NoMorePagesThanTheSlotsCanUse) {
  EngineOptions options = DefaultEngineOptions();
  options.max_context = 128;
  options.max_requests = 2;
  options.max_nodes = 16;

  const absl::StatusOr<PlannedEngine> planned = Fit(options);

  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(planned->options.num_pages,
            2 * planned->options.MaxPagesPerRequest());
}

TEST_F(EngineSizesTest, AnErrorNamesThePartAndTheFlag) {
  const struct {
    const char* flag;
    void (*change)(EngineOptions&);
  } cases[] = {
      {"--slots", [](EngineOptions& o) { o.num_slots = 100'000; }},
      {"--max-nodes", [](EngineOptions& o) { o.max_nodes = 60'000; }},
      {"--pages", [](EngineOptions& o) { o.num_pages = 1'000'000; }},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.flag);
    EngineOptions options = DefaultEngineOptions();
    options.max_context = 2048;
    c.change(options);

    const absl::Status status = Fit(options).status();

    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.flag));
    EXPECT_THAT(std::string(status.message()), HasSubstr("too much"));
  }
}

TEST_F(EngineSizesTest, OneRequestOfFullContextHasToFit) {
  backend_->state->free_bytes = 8 * kGiB;
  EngineOptions options = DefaultEngineOptions();
  options.num_slots = 1;
  options.num_checkpoints = 0;
  options.max_requests = 1;
  options.max_nodes = 8;
  const absl::StatusOr<PlannedEngine> fits = Fit(options);
  ASSERT_TRUE(fits.ok()) << fits.status();
  const MemoryPlan& plan = fits->memory;
  // The last page lacks one byte.
  backend_->state->free_bytes =
      plan.total() - plan.weights +
      static_cast<size_t>((1 - 0.9) * static_cast<double>(8 * kGiB)) - 1;

  const absl::Status status = Fit(options).status();

  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--context"));
}

}  // namespace
}  // namespace bole
