#include "worker_service/row_batch_buffer.h"

#include <algorithm>
#include <numeric>

namespace bole {
namespace {

// Where `host` mirrors the array that starts at `part` of the device image.
template <typename T>
T* Mirror(std::vector<int32_t>& host, const int32_t* device, const T* part) {
  static_assert(sizeof(T) == sizeof(int32_t));
  const auto* at = reinterpret_cast<const int32_t*>(part);
  return reinterpret_cast<T*>(host.data() + (at - device));
}

}  // namespace

void HostRows::AddChain(std::span<const int32_t> tokens) {
  const int count = static_cast<int>(tokens.size());
  for (int i = 0; i < count; ++i) {
    request.push_back(static_cast<int>(first_row.size()) - 1);
    node.push_back(i);
    parent.push_back(i - 1);
    depth.push_back(i);
    token.push_back(tokens[i]);
  }
  first_row.push_back(first_row.back() + count);
}

HostRows RowsOf(const PackedForest& forest) {
  HostRows rows;
  rows.first_row = forest.first_node;
  rows.request = forest.request;
  rows.parent = forest.parent;
  rows.depth = forest.depth;
  rows.token = forest.token;
  rows.mask_words = forest.mask_words;
  rows.ancestors = forest.ancestors;
  for (int i = 0; i < forest.num_nodes(); ++i) {
    rows.node.push_back(i - forest.first_node[forest.request[i]]);
  }
  return rows;
}

RowBatchBuffer::RowBatchBuffer(Backend& backend,
                               const RowBatchCapacity& capacity,
                               std::string_view what, DeviceArrays& arrays)
    : backend_(&backend), capacity_(capacity), batch_{} {
  const int64_t b = capacity.max_requests;
  const int64_t n = capacity.max_rows;
  const int64_t total = 1 + (b + 1) + n * (6 + capacity.mask_words) +
                        b * (2 + capacity.max_pages);
  device_ = arrays.Array<int32_t>(total, what);
  if (device_ == nullptr) return;
  host_.assign(total, 0);
  batch_ = {
      .max_requests = capacity.max_requests,
      .max_pages = capacity.max_pages,
      .mask_words = capacity.mask_words,
      .rows = {.count = Take(1), .max = capacity.max_rows},
      .first_row = Take(b + 1),
      .request = Take(n),
      .node = Take(n),
      .parent = Take(n),
      .depth = Take(n),
      .ancestors = reinterpret_cast<uint32_t*>(Take(n * capacity.mask_words)),
      .slot = Take(b),
      .committed = Take(b),
      .page_table = Take(b * capacity.max_pages)};
  token_ = Take(n);
  all_rows_ = Take(n);
  int32_t* all = Mirror(host_, device_, all_rows_);
  std::iota(all, all + n, 0);
}

int32_t* RowBatchBuffer::Take(int64_t count) {
  int32_t* part = device_ + used_;
  used_ += count;
  return part;
}

absl::Status RowBatchBuffer::Upload(const HostRows& rows,
                                    std::span<const HostSequence> sequences) {
  const auto set = [&](const int32_t* part, const std::vector<int32_t>& from) {
    std::copy(from.begin(), from.end(), Mirror(host_, device_, part));
  };
  *Mirror(host_, device_, batch_.rows.count) = rows.num_rows();
  int32_t* first_row = Mirror(host_, device_, batch_.first_row);
  std::fill_n(first_row, capacity_.max_requests + 1, rows.num_rows());
  set(batch_.first_row, rows.first_row);
  set(batch_.request, rows.request);
  set(batch_.node, rows.node);
  set(batch_.parent, rows.parent);
  set(batch_.depth, rows.depth);
  set(token_, rows.token);
  uint32_t* ancestors = Mirror(host_, device_, batch_.ancestors);
  std::fill_n(ancestors, rows.num_rows() * capacity_.mask_words, 0u);
  for (int i = 0; i < rows.num_rows(); ++i) {
    std::copy_n(rows.ancestors.begin() + i * rows.mask_words, rows.mask_words,
                ancestors + i * capacity_.mask_words);
  }
  for (size_t b = 0; b < sequences.size(); ++b) {
    Mirror(host_, device_, batch_.slot)[b] = sequences[b].slot;
    Mirror(host_, device_, batch_.committed)[b] = sequences[b].committed;
    int32_t* pages =
        Mirror(host_, device_, batch_.page_table) + b * capacity_.max_pages;
    for (PageId page : sequences[b].pages) *pages++ = page.value();
  }
  return backend_->Upload(device_, host_.data(),
                          host_.size() * sizeof(int32_t));
}

}  // namespace bole
