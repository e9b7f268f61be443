#include "worker_service/engine/memory_copies.h"

#include <span>

#include "common/status_macros.h"

namespace bole {
namespace {

absl::Status CopyItem(std::span<const MemoryPart> parts, size_t from, size_t to,
                      Device& device) {
  for (const MemoryPart& part : parts) {
    char* first = static_cast<char*>(part.first);
    BOLE_RETURN_IF_ERROR(device.CopyDevice(first + to * part.item_bytes,
                                           first + from * part.item_bytes,
                                           part.item_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status QueueCopies(const MemoryCopies& copies,
                         const SequenceMemory& memory, Device& device,
                         OperatorSet& operators) {
  for (const SlotCopy& copy : copies.slots) {
    BOLE_RETURN_IF_ERROR(CopyItem(memory.slot_parts, copy.from.value(),
                                  copy.to.value(), device));
    if (!copy.output_to_prompt) continue;
    BOLE_RETURN_IF_ERROR(
        operators.OutputToPrompt({.slot = copy.to.value(),
                                  .vocabulary = memory.vocabulary,
                                  .counts = memory.counts}));
  }
  for (const PageCopy& copy : copies.pages) {
    BOLE_RETURN_IF_ERROR(CopyItem(memory.page_parts, copy.from.value(),
                                  copy.to.value(), device));
  }
  return absl::OkStatus();
}

}  // namespace bole
