// What a plan copies among slots, pages and places of the host.
#ifndef BOLE_COMMON_MEMORY_COPIES_H_
#define BOLE_COMMON_MEMORY_COPIES_H_

#include <vector>

#include "common/ids.h"

namespace bole {

// All that a slot holds goes to another slot, where a checkpoint of it stays or
// a request goes on from one.
struct SlotCopy {
  SlotId from{0};
  SlotId to{0};
  // What the penalties know as output becomes part of the prompt: the request
  // that goes on has it there.
  bool output_to_prompt = false;

  friend bool operator==(const SlotCopy&, const SlotCopy&) = default;
};

// The keys and values of a page, in every layer, go to another page.
struct PageCopy {
  PageId from{0};
  PageId to{0};

  friend bool operator==(const PageCopy&, const PageCopy&) = default;
};

// Slots first, then pages. Nothing is copied to twice.
struct MemoryCopies {
  std::vector<SlotCopy> slots = {};
  std::vector<PageCopy> pages = {};

  bool empty() const { return slots.empty() && pages.empty(); }
  friend bool operator==(const MemoryCopies&, const MemoryCopies&) = default;
};

}  // namespace bole

#endif  // BOLE_COMMON_MEMORY_COPIES_H_
