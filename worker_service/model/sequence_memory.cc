#include "worker_service/model/sequence_memory.h"

#include <cstdint>

#include "common/step.h"
#include "worker_service/model/layer_context.h"

namespace bole {
namespace {

size_t BytesOf(const std::vector<MemoryPart>& parts) {
  size_t bytes = 0;
  for (const MemoryPart& part : parts) bytes += part.item_bytes;
  return bytes;
}

}  // namespace

SequenceMemory::SequenceMemory(const ModelConfig& config, const Size& size,
                               DeviceArrays& arrays) {
  const int num_slots = size.num_slots;
  size_t before = arrays.total_bytes();
  const auto as_part = [&](auto* array) {
    slot_parts.push_back({array, (arrays.total_bytes() - before) / num_slots});
    before = arrays.total_bytes();
    return array;
  };
  const GdnShape gdn = GdnShapeOf(config);
  const int64_t slots = num_slots;
  const int64_t state_rows = slots * config.num_linear_layers();
  states.num_slots = num_slots;
  states.num_layers = config.num_linear_layers();
  states.state = as_part(arrays.Array<float>(
      state_rows * gdn.value_heads * gdn.value_dim * gdn.key_dim,
      "recurrent states"));
  states.window = as_part(arrays.Activations(
      state_rows * gdn.conv_taps * gdn.conv_width(), "convolution windows"));
  vocabulary = config.vocab_size;
  counts.num_slots = num_slots;
  counts.count =
      as_part(arrays.Array<int32_t>(slots * vocabulary, "token counts"));
  if (size.keeps_hidden) {
    hidden =
        as_part(arrays.Activations(slots * kMaxDraftTail * config.hidden_size,
                                   "hidden vectors for the drafter"));
  }
  AllocatePages(config, size, arrays);
}

void SequenceMemory::AllocatePages(const ModelConfig& config, const Size& size,
                                   DeviceArrays& arrays) {
  const int kv_layers = config.num_attention_layers() + 1;
  const int64_t layer_pages = size.num_pages;
  const int64_t elements = kv_layers * layer_pages * size.page_size *
                           AttentionShapeOf(config).kv_width();
  const size_t before = arrays.total_bytes();
  pages = {.k = arrays.Activations(elements, "key pages"),
           .v = arrays.Activations(elements, "value pages"),
           .num_layers = kv_layers,
           .num_pages = size.num_pages,
           .page_size = size.page_size};
  const size_t item_bytes =
      (arrays.total_bytes() - before) / (2 * kv_layers * layer_pages);
  for (Activation* array : {pages.k, pages.v}) {
    char* layer = reinterpret_cast<char*>(array);
    for (int i = 0; i < kv_layers; ++i) {
      page_parts.push_back({layer, item_bytes});
      if (layer != nullptr) layer += item_bytes * layer_pages;
    }
  }
}

size_t SequenceMemory::slot_bytes() const { return BytesOf(slot_parts); }

size_t SequenceMemory::page_bytes() const { return BytesOf(page_parts); }

}  // namespace bole
