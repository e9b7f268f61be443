#include "worker_service/engine/row_batch_buffer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/status/statusor.h"
#include "common/check.h"

namespace bole {
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

void RowArrays::BindRequests(const RowBatchCapacity& capacity,
                             TransferBlock& block) {
  capacity_ = capacity;
  const int64_t b = capacity.max_requests;
  const int64_t tokens = std::max(capacity.max_rows, capacity.token_room);
  const auto ints = [&block](int64_t count) {
    return block.Take<int32_t>(count);
  };
  const int64_t begin = block.used();
  count_ = ints(1);
  first_row_ = ints(b + 1);
  parent_ = ints(tokens);
  token_ = ints(tokens);
  forest_bytes_ = block.used() - begin;
  slot_ = ints(b);
  committed_ = ints(b);
  page_table_ = ints(b * capacity.max_pages);
}

void RowArrays::BindRows(TransferBlock& block) {
  const RowBatchCapacity& capacity = capacity_;
  const int64_t n = capacity.max_rows;
  request_ = block.Take<int32_t>(n);
  node_ = block.Take<int32_t>(n);
  depth_ = block.Take<int32_t>(n);
  ancestors_ = block.Take<uint32_t>(n * capacity.mask_words);
  all_rows_ = block.Take<int32_t>(n);
  batch_ = {.max_requests = capacity.max_requests,
            .max_pages = capacity.max_pages,
            .mask_words = capacity.mask_words,
            .max_path = capacity.max_path,
            .rows = {.count = count_.device, .max = capacity.max_rows},
            .first_row = first_row_.device,
            .request = request_.device,
            .node = node_.device,
            .parent = parent_.device,
            .depth = depth_.device,
            .ancestors = ancestors_.device,
            .slot = slot_.device,
            .committed = committed_.device,
            .page_table = page_table_.device};
}

void RowArrays::Fill(const HostRows& rows,
                     std::span<const HostSequence> sequences) {
  const auto set = [](const TransferArray<int32_t>& to,
                      const std::vector<int32_t>& from) {
    std::copy(from.begin(), from.end(), to.host);
  };
  *count_.host = rows.num_rows();
  std::ranges::fill(first_row_.values(), rows.num_rows());
  set(first_row_, rows.first_row);
  set(request_, rows.request);
  set(node_, rows.node);
  set(parent_, rows.parent);
  set(depth_, rows.depth);
  set(token_, rows.token);
  std::iota(all_rows_.host, all_rows_.host + all_rows_.count, 0);
  std::fill_n(ancestors_.host, rows.num_rows() * capacity_.mask_words, 0u);
  for (int i = 0; i < rows.num_rows(); ++i) {
    std::copy_n(rows.ancestors.begin() + i * rows.mask_words, rows.mask_words,
                ancestors_.host + i * capacity_.mask_words);
  }
  std::ranges::fill(slot_.values(), 0);
  std::ranges::fill(committed_.values(), 0);
  for (size_t b = 0; b < sequences.size(); ++b) {
    slot_.host[b] = sequences[b].slot;
    committed_.host[b] = sequences[b].committed;
    int32_t* pages = page_table_.host + b * capacity_.max_pages;
    for (PageId page : sequences[b].pages) *pages++ = page.value();
  }
}

void RowArrays::SetOutputs(SelectForestParams& params) const {
  params.max_requests = capacity_.max_requests;
  params.max_rows = capacity_.max_rows;
  params.mask_words = capacity_.mask_words;
  params.num_rows = count_.device;
  params.first_row = first_row_.device;
  params.request = request_.device;
  params.node = node_.device;
  params.parent = parent_.device;
  params.depth = depth_.device;
  params.ancestors = ancestors_.device;
  params.token = token_.device;
}

PackedForest RowArrays::Forest(const TransferBlock& block, int image,
                               int num_requests) const {
  const std::span<const int32_t> first = block.InImage(first_row_, image);
  const std::span<const int32_t> parent = block.InImage(parent_, image);
  const std::span<const int32_t> token = block.InImage(token_, image);
  std::vector<NodeList> lists(num_requests);
  for (int b = 0; b < num_requests; ++b) {
    const size_t count = first[b + 1] - first[b];
    const auto of = [&](std::span<const int32_t> values) {
      const auto part = values.subspan(first[b], count);
      return std::vector<int32_t>(part.begin(), part.end());
    };
    lists[b] = {.token = of(token), .parent = of(parent)};
  }
  absl::StatusOr<PackedForest> forest = BuildForest(lists);
  BOLE_CHECK(forest.ok());
  return *std::move(forest);
}

RowBatchBuffer::RowBatchBuffer(const RowBatchCapacity& capacity,
                               std::string_view what, DeviceArrays& arrays) {
  TransferBlock sizes;
  rows_.Bind(capacity, sizes);
  block_ = TransferBlock(sizes.used(), /*num_images=*/1, what, arrays);
  rows_.Bind(capacity, block_);
}

absl::Status RowBatchBuffer::Upload(const HostRows& rows,
                                    std::span<const HostSequence> sequences) {
  rows_.Fill(rows, sequences);
  return block_.Upload(block_.used());
}

}  // namespace bole
