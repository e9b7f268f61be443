#include "tests/kernels/attention_problem.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "tests/testing/activations.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

// Gives every request the pages that hold KV indices 0 (or the first node's) ..
// first_key + committed + nodes - 1. Returns the number of pages.
int AddPageTables(std::mt19937& rng, const AttentionOptions& options,
                  HostBatch& batch) {
  struct Entry {
    int request;
    int place;
  };
  std::vector<Entry> entries;
  batch.max_pages = 1;
  for (int b = 0; b < batch.num_requests(); ++b) {
    const int first_node = options.first_key + batch.committed[b];
    const int end = first_node + static_cast<int>(batch.trees[b].size());
    const int first = options.with_prefix ? 0 : first_node / options.page_size;
    for (int i = first; i * options.page_size < end; ++i) {
      entries.push_back({b, i});
      batch.max_pages = std::max(batch.max_pages, i + 2);
    }
  }
  std::vector<int32_t> pages(entries.size() + options.spare_pages);
  std::iota(pages.begin(), pages.end(), 0);
  std::ranges::shuffle(pages, rng);
  batch.page_table =
      GuardedBuffer<int32_t>(batch.slot.size() * batch.max_pages);
  for (size_t i = 0; i < entries.size(); ++i) {
    batch.page_table[static_cast<size_t>(entries[i].request) * batch.max_pages +
                     entries[i].place] = pages[i];
  }
  return static_cast<int>(pages.size());
}

}  // namespace

AttentionProblem::AttentionProblem(std::mt19937& rng,
                                   const AttentionOptions& options,
                                   HostBatch host_batch)
    : shape(options.shape),
      page_size(options.page_size),
      num_layers(options.num_layers),
      first_key(options.first_key),
      num_pages(AddPageTables(rng, options, host_batch)),
      batch(std::move(host_batch)),
      k(static_cast<size_t>(num_layers) * num_pages * page_size *
        shape.kv_width()),
      v(k.size()),
      q(static_cast<size_t>(batch.max_rows()) * shape.query_width()),
      projected(static_cast<size_t>(batch.max_rows()) *
                shape.projected_width()),
      out(q.size()) {
  std::ranges::fill(out.span(0, out.size()), kUntouched);
}

KvPages AttentionProblem::Pages() {
  return {.k = AsActivations(k.data()),
          .v = AsActivations(v.data()),
          .num_layers = num_layers,
          .num_pages = num_pages,
          .page_size = page_size};
}

AttentionParams AttentionProblem::Params(int layer) {
  return {.batch = batch.View(),
          .shape = shape,
          .pages = Pages(),
          .layer = layer,
          .first_key = first_key,
          .q = AsActivations(q.data()),
          .projected = AsActivations(projected.data()),
          .out = AsActivations(out.data())};
}

size_t AttentionProblem::KvOffset(int layer, int request, int index,
                                  int head) const {
  const size_t page =
      batch.page_table[static_cast<size_t>(request) * batch.max_pages +
                       index / page_size];
  const size_t block = layer * static_cast<size_t>(num_pages) + page;
  const size_t row =
      (block * shape.kv_heads + head) * page_size + index % page_size;
  return row * shape.head_dim;
}

std::span<float> AttentionProblem::Key(int layer, int request, int index,
                                       int head) {
  return k.span(KvOffset(layer, request, index, head), shape.head_dim);
}

std::span<float> AttentionProblem::Value(int layer, int request, int index,
                                         int head) {
  return v.span(KvOffset(layer, request, index, head), shape.head_dim);
}

std::span<float> AttentionProblem::Query(int row, int head) {
  return q.span(
      (static_cast<size_t>(row) * shape.query_heads + head) * shape.head_dim,
      shape.head_dim);
}

std::span<float> AttentionProblem::Gate(int row, int head) {
  return projected.span(static_cast<size_t>(row) * shape.projected_width() +
                            (2 * head + 1) * shape.head_dim,
                        shape.head_dim);
}

std::span<float> AttentionProblem::Out(int row, int head) {
  return out.span(
      (static_cast<size_t>(row) * shape.query_heads + head) * shape.head_dim,
      shape.head_dim);
}

std::vector<int> AttentionProblem::Visible(int row) const {
  const int request = batch.request[row];
  std::vector<int> visible(batch.committed[request]);
  std::iota(visible.begin(), visible.end(), first_key);
  for (const int node : PathTo(batch.trees[request], batch.node[row])) {
    visible.push_back(first_key + batch.committed[request] + node);
  }
  return visible;
}

void AttentionProblem::FillInputs(std::mt19937& rng, int layer) {
  for (int row = 0; row < batch.num_rows(); ++row) {
    const int request = batch.request[row];
    const bool shares_prefix = row > batch.first_row[request];
    for (const int index : Visible(row)) {
      if (shares_prefix && index < first_key + batch.committed[request]) {
        continue;
      }
      for (int head = 0; head < shape.kv_heads; ++head) {
        FillNormal(rng, 1, Key(layer, request, index, head));
        FillNormal(rng, 1, Value(layer, request, index, head));
      }
    }
    // Some scores are beyond the range of exp.
    const float deviation = UniformInt(rng, 0, 3) == 0 ? 200.0f : 2.0f;
    for (int head = 0; head < shape.query_heads; ++head) {
      FillNormal(rng, deviation, Query(row, head));
      FillNormal(rng, 2, Gate(row, head));
    }
  }
}

void CopyAsPlain(AttentionProblem& from, int row, int layer,
                 AttentionProblem& to) {
  const int request = from.batch.request[row];
  int next = to.first_key;
  for (const int index : from.Visible(row)) {
    for (int head = 0; head < from.shape.kv_heads; ++head) {
      std::ranges::copy(from.Key(layer, request, index, head),
                        to.Key(layer, 0, next, head).begin());
      std::ranges::copy(from.Value(layer, request, index, head),
                        to.Value(layer, 0, next, head).begin());
    }
    ++next;
  }
  for (int head = 0; head < from.shape.query_heads; ++head) {
    std::ranges::copy(from.Query(row, head), to.Query(0, head).begin());
    std::ranges::copy(from.Gate(row, head), to.Gate(0, head).begin());
  }
}

AttentionProblem WithFirstKey(std::mt19937& rng, AttentionProblem& from,
                              int layer, int first_key) {
  AttentionProblem to(rng,
                      {.shape = from.shape,
                       .page_size = from.page_size,
                       .num_layers = from.num_layers,
                       .first_key = first_key},
                      from.batch);
  to.q = from.q;
  to.projected = from.projected;
  for (int b = 0; b < from.batch.num_requests(); ++b) {
    const int count =
        from.batch.committed[b] + static_cast<int>(from.batch.trees[b].size());
    for (int i = 0; i < count; ++i) {
      for (int head = 0; head < from.shape.kv_heads; ++head) {
        std::ranges::copy(from.Key(layer, b, from.first_key + i, head),
                          to.Key(layer, b, first_key + i, head).begin());
        std::ranges::copy(from.Value(layer, b, from.first_key + i, head),
                          to.Value(layer, b, first_key + i, head).begin());
      }
    }
  }
  return to;
}

AttentionShape RandomShape(std::mt19937& rng) {
  const int ratios[] = {1, 2, 3, 6};
  const int kv_heads = UniformInt(rng, 1, 3);
  const int head_dim = UniformInt(rng, 1, 70);
  return {.query_heads = kv_heads * ratios[UniformInt(rng, 0, 3)],
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .rotary_dim = 2 * UniformInt(rng, 0, head_dim / 2)};
}

HostBatch RandomBatch(std::mt19937& rng, int max_committed) {
  HostBatch batch = PackTrees(RandomForest(rng, 4, 40),
                              {.spare_rows = 2, .spare_requests = 1});
  for (int b = 0; b < batch.num_requests(); ++b) {
    batch.committed[b] = UniformInt(rng, 0, max_committed);
  }
  return batch;
}

HostBatch OnlyRow(const HostBatch& batch, int row) {
  HostBatch only = batch;
  only.count[0] = 1;
  const int request = batch.request[row];
  for (size_t b = 0; b < only.first_row.size(); ++b) {
    only.first_row[b] = static_cast<int>(b) > request ? 1 : 0;
  }
  only.request[0] = request;
  only.node[0] = batch.node[row];
  only.parent[0] = batch.parent[row];
  only.depth[0] = batch.depth[row];
  const size_t words = batch.mask_words;
  std::ranges::copy(batch.ancestors.span(row * words, words),
                    only.ancestors.data());
  return only;
}

}  // namespace bole::testing
