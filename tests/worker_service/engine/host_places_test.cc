// When rounds wait for copies to and from the host, and what is copied where.
#include "worker_service/engine/host_places.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "worker_service/model/device_arrays.h"
#include "worker_service/model/model_config.h"
#include "worker_service/model/sequence_memory.h"

namespace bole {
namespace {

class CountingBackend final : public ReferenceBackend {
 public:
  CountingBackend() : ReferenceBackend(/*num_threads=*/1) {}
  absl::Status AwaitHostCopies() override {
    ++num_waits;
    return absl::OkStatus();
  }

  int num_waits = 0;
};

constexpr int kPageSize = 8;

ModelConfig Config() {
  absl::StatusOr<ModelConfig> config = LoadModelConfig("tests/golden/dense");
  EXPECT_TRUE(config.ok()) << config.status();
  return *std::move(config);
}

class HostPlacesTest : public ::testing::Test {
 protected:
  // Whether the plan's round waits.
  bool Waits(const StepPlan& plan) {
    const int before = backend_.num_waits;
    const absl::Status status = host_.QueueCopies(plan);
    EXPECT_TRUE(status.ok()) << status;
    return backend_.num_waits > before;
  }
  // 20 tokens are committed: page 2 of the sequence is written.
  static SequencePlan Sequence(int slot, const std::vector<int>& pages) {
    SequencePlan sequence{.slot = SlotId(slot), .committed = 20};
    for (const int page : pages) sequence.pages.emplace_back(page);
    return sequence;
  }
  static StepPlan Leaving(int slot, int page) {
    StepPlan plan;
    plan.to_host.slots = {{.from = SlotId(slot), .to = SlotId(0)}};
    plan.to_host.pages = {{.from = PageId(page), .to = PageId(1)}};
    return plan;
  }

  CountingBackend backend_;
  DeviceArrays arrays_{backend_};
  SequenceMemory memory_{
      Config(),
      {.num_slots = 4, .num_pages = 12, .page_size = kPageSize},
      arrays_};
  HostPlaces host_{
      memory_, {.num_slots = 2, .num_pages = 3}, backend_, arrays_};
};

TEST_F(HostPlacesTest, ARoundThatWritesNothingOfWhatLeavesDoesNotWait) {
  EXPECT_FALSE(Waits(Leaving(1, 5)));
  StepPlan plan;
  plan.sequences = {Sequence(0, {4, 5, 6})};
  plan.prefills = {{.sequence = Sequence(2, {5, 4, 7})}};
  plan.copies.slots = {{.from = SlotId(1), .to = SlotId(3)}};
  plan.copies.pages = {{.from = PageId(5), .to = PageId(8)}};
  EXPECT_FALSE(Waits(plan));
}

TEST_F(HostPlacesTest, ARoundThatWritesWhatLeavesWaitsOnce) {
  std::vector<StepPlan> plans(6);
  plans[0].sequences = {Sequence(1, {4, 6, 7})};
  plans[1].sequences = {Sequence(0, {4, 6, 5})};
  plans[2].prefills = {{.sequence = Sequence(0, {4, 6, 7, 5})}};
  plans[3].copies.slots = {{.from = SlotId(0), .to = SlotId(1)}};
  plans[4].copies.pages = {{.from = PageId(0), .to = PageId(5)}};
  // The drafter's rows of a tail lie before.
  plans[5].sequences = {Sequence(0, {4, 5, 7})};
  plans[5].sequences[0].draft_tail = {1, 2, 3, 4, 5};
  for (size_t i = 0; i < plans.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_FALSE(Waits(Leaving(1, 5)));
    EXPECT_TRUE(Waits(plans[i]));
    EXPECT_FALSE(Waits(plans[i]));
  }
}

TEST_F(HostPlacesTest, ARoundWaitsForWhatItsOwnPlanCopies) {
  StepPlan leaving = Leaving(1, 5);
  leaving.sequences = {Sequence(1, {0, 1, 2})};
  EXPECT_TRUE(Waits(leaving));

  StepPlan coming;
  coming.from_host.pages = {{.from = PageId(1), .to = PageId(2)}};
  EXPECT_TRUE(Waits(coming));
  EXPECT_FALSE(Waits({}));
}

// Every part of a slot or page goes to its place and comes back, and nothing
// else changes.
TEST_F(HostPlacesTest, CopiesEveryPart) {
  ASSERT_TRUE(arrays_.status().ok());
  const auto bytes = [](const MemoryPart& part, int item) {
    return static_cast<uint8_t*>(part.first) + item * part.item_bytes;
  };
  const auto fill = [&](const std::vector<MemoryPart>& parts, int items) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const size_t count = items * parts[i].item_bytes;
      for (size_t at = 0; at < count; ++at) {
        bytes(parts[i], 0)[at] = static_cast<uint8_t>(at % 251 + i);
      }
    }
  };
  const auto all = [&](const std::vector<MemoryPart>& parts, int item) {
    std::vector<uint8_t> seen;
    for (const MemoryPart& part : parts) {
      seen.insert(seen.end(), bytes(part, item), bytes(part, item + 1));
    }
    return seen;
  };
  fill(memory_.slot_parts, 4);
  fill(memory_.page_parts, 12);
  const std::vector<uint8_t> slot = all(memory_.slot_parts, 1);
  const std::vector<uint8_t> page = all(memory_.page_parts, 5);
  const std::vector<uint8_t> other = all(memory_.page_parts, 7);
  ASSERT_NE(page, all(memory_.page_parts, 6));

  ASSERT_TRUE(host_.QueueCopies(Leaving(1, 5)).ok());
  StepPlan back;
  back.from_host.slots = {{.from = SlotId(0), .to = SlotId(3)}};
  back.from_host.pages = {{.from = PageId(1), .to = PageId(6)}};
  ASSERT_TRUE(host_.QueueCopies(back).ok());

  EXPECT_EQ(all(memory_.slot_parts, 3), slot);
  EXPECT_EQ(all(memory_.page_parts, 6), page);
  EXPECT_EQ(all(memory_.page_parts, 5), page);
  EXPECT_EQ(all(memory_.page_parts, 7), other);
}

}  // namespace
}  // namespace bole
