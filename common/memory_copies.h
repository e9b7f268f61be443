// What a plan copies among slots, pages and places in host memory.
#ifndef BOLE_COMMON_MEMORY_COPIES_H_
#define BOLE_COMMON_MEMORY_COPIES_H_

#include <vector>

#include "common/ids.h"

namespace bole {

// Copies the contents of a slot to another one, to keep a checkpoint or to
// continue a request from one.
struct SlotCopy {
  SlotId from{0};
  SlotId to{0};
  // Whether tokens that the penalties count as output are counted as prompt
  // from now on: the request that continues from the copy has them there.
  bool output_to_prompt = false;

  friend bool operator==(const SlotCopy&, const SlotCopy&) = default;
};

// Copies the keys and values of a page, in every layer, to another page.
struct PageCopy {
  PageId from{0};
  PageId to{0};

  friend bool operator==(const PageCopy&, const PageCopy&) = default;
};

// Slots first, then pages. No destination occurs twice.
struct MemoryCopies {
  std::vector<SlotCopy> slots = {};
  std::vector<PageCopy> pages = {};

  bool empty() const { return slots.empty() && pages.empty(); }
  friend bool operator==(const MemoryCopies&, const MemoryCopies&) = default;
};

}  // namespace bole

#endif  // BOLE_COMMON_MEMORY_COPIES_H_
