// Locates the keys and values of a request.
#ifndef BOLE_KERNELS_CUDA_ATTENTION_KV_ROWS_CUH_
#define BOLE_KERNELS_CUDA_ATTENTION_KV_ROWS_CUH_

#include <cstdint>

#include "cuda_runtime.h"
#include "kernels/attention.h"
#include "kernels/row_batch.h"

namespace bole::cuda {

// The rows of head_dim elements that the pools consist of, by KV index. A key
// and its value have the same row number, each in its own pool.
class KvRows {
 public:
  __device__ KvRows(const RowBatch& batch, const AttentionShape& shape,
                    const KvPages& pages, int request)
      : page_table_(batch.page_table +
                    static_cast<int64_t>(request) * batch.max_pages),
        page_size_(pages.page_size),
        kv_heads_(shape.kv_heads),
        layer_rows_(static_cast<int64_t>(pages.num_pages) * shape.kv_heads *
                    pages.page_size) {}

  // The row of KV index `index` in the first head of the first layer.
  __device__ int64_t Row(int index) const {
    const int place = index / page_size_;
    return static_cast<int64_t>(__ldcg(page_table_ + place)) * kv_heads_ *
               page_size_ +
           (index - place * page_size_);
  }
  // The distance from that row to the one of the same index in another layer
  // and head.
  __device__ int64_t Distance(int layer, int head) const {
    return layer * layer_rows_ + head * page_size_;
  }

 private:
  const int32_t* page_table_;
  int page_size_;
  int kv_heads_;
  int64_t layer_rows_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_KV_ROWS_CUH_
