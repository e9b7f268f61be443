#include "worker_service/memory_copies.h"

#include <span>

#include "common/status_macros.h"

namespace bole {
namespace {

absl::Status CopyItem(std::span<const MemoryPart> parts, size_t from, size_t to,
                      Backend& backend) {
  for (const MemoryPart& part : parts) {
    char* first = static_cast<char*>(part.first);
    BOLE_RETURN_IF_ERROR(backend.CopyDevice(first + to * part.item_bytes,
                                            first + from * part.item_bytes,
                                            part.item_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status QueueCopies(const MemoryCopies& copies,
                         const SequenceMemory& memory, Backend& backend) {
  for (const SlotCopy& copy : copies.slots) {
    BOLE_RETURN_IF_ERROR(CopyItem(memory.slot_parts, copy.from.value(),
                                  copy.to.value(), backend));
    if (!copy.output_to_prompt) continue;
    BOLE_RETURN_IF_ERROR(
        backend.OutputToPrompt({.slot = copy.to.value(),
                                .vocabulary = memory.vocabulary,
                                .counts = memory.counts}));
  }
  for (const PageCopy& copy : copies.pages) {
    BOLE_RETURN_IF_ERROR(CopyItem(memory.page_parts, copy.from.value(),
                                  copy.to.value(), backend));
  }
  return absl::OkStatus();
}

}  // namespace bole
