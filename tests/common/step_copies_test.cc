// Which copies of slots and pages Validate() accepts.
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/ids.h"
#include "common/step.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

StepLimits Limits() {
  return {.max_requests = 4,
          .max_nodes = 10,
          .max_nodes_per_tree = 6,
          .max_prefill_tokens = 64,
          .max_draft = {.top_k = 2, .depth = 3},
          .num_slots = 6,
          .num_pages = 20,
          .num_host_slots = 2,
          .num_host_pages = 30,
          .page_size = 8,
          .max_context = 40,
          .vocabulary = 100};
}

struct BrokenPlan {
  std::string message;
  std::function<void(StepPlan&)> break_it;
};

void ExpectRefusals(const std::vector<BrokenPlan>& cases) {
  for (const BrokenPlan& broken : cases) {
    StepPlan plan;
    broken.break_it(plan);
    EXPECT_EQ(Validate(plan, Limits()),
              absl::InvalidArgumentError(broken.message));
  }
}

TEST(StepCopiesTest, ACopyFromOrToWhatIsNotThereIsRefused) {
  const auto slots = [](int from, int to) {
    return [=](StepPlan& p) {
      p.copies.slots = {{.from = SlotId(0), .to = SlotId(1)},
                        {.from = SlotId(from), .to = SlotId(to)}};
    };
  };
  const auto pages = [](int from, int to) {
    return [=](StepPlan& p) {
      p.copies.pages = {{.from = PageId(0), .to = PageId(1)},
                        {.from = PageId(from), .to = PageId(to)}};
    };
  };
  const int num_slots = Limits().num_slots;
  const int num_pages = Limits().num_pages;
  const auto range = [](const char* which, int value, int total) {
    return absl::StrCat(which, " is ", value, ", not in [0, ", total - 1, "]");
  };
  ExpectRefusals({
      {range("slot copy 1: from", num_slots, num_slots), slots(num_slots, 2)},
      {range("slot copy 1: to", -1, num_slots), slots(0, -1)},
      {"slot copy 1: slot 2 is its own source", slots(2, 2)},
      {"slot copy 1: slot 1 is copied to twice", slots(2, 1)},
      {range("page copy 1: from", -1, num_pages), pages(-1, 2)},
      {range("page copy 1: to", num_pages, num_pages), pages(0, num_pages)},
      {"page copy 1: page 1 is copied to twice", pages(0, 1)},
  });
  StepPlan chained;
  slots(1, 2)(chained);
  EXPECT_TRUE(Validate(chained, Limits()).ok());
}

TEST(StepCopiesTest, ACopyToOrFromAPlaceThatIsNotThereIsRefused) {
  const auto out = [](int from, int to) {
    return [=](StepPlan& p) {
      p.to_host.slots = {{.from = SlotId(5), .to = SlotId(1)},
                         {.from = SlotId(from), .to = SlotId(to)}};
    };
  };
  const auto in = [](int from, int to) {
    return [=](StepPlan& p) {
      p.from_host.pages = {{.from = PageId(29), .to = PageId(19)},
                           {.from = PageId(from), .to = PageId(to)}};
      p.copies.pages = {{.from = PageId(1), .to = PageId(18)}};
    };
  };
  ExpectRefusals({
      {"slot copy to the host 1: from is 6, not in [0, 5]", out(6, 0)},
      {"slot copy to the host 1: to is 2, not in [0, 1]", out(0, 2)},
      {"slot copy to the host 1: to is -1, not in [0, 1]", out(0, -1)},
      {"slot copy to the host 1: slot 1 is copied to twice", out(0, 1)},
      {"slot copy to the host 0: output_to_prompt is true, and nobody goes on "
       "from there",
       [&](StepPlan& p) {
         out(0, 0)(p);
         p.to_host.slots[0].output_to_prompt = true;
       }},
      {"page copy from the host 1: from is 30, not in [0, 29]", in(30, 0)},
      {"page copy from the host 1: to is 20, not in [0, 19]", in(0, 20)},
      {"page copy from the host 1: page 19 is copied to twice", in(0, 19)},
      // Within the device, and from the host as well.
      {"page copy 0: page 18 is copied to twice", in(0, 18)},
  });
  StepPlan plan;
  out(5, 0)(plan);
  in(2, 2)(plan);
  EXPECT_TRUE(Validate(plan, Limits()).ok()) << Validate(plan, Limits());

  StepLimits none = Limits();
  none.num_host_slots = 0;
  EXPECT_EQ(Validate(plan, none).message(),
            "slot copy to the host 0: to is 1, not in [0, -1]");
}

}  // namespace
}  // namespace bole
