#include "kernels/reference/attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/reference/activations.h"
#include "kernels/reference/vector_ops.h"

namespace bole::reference {
namespace {

// The addresses of one layer's keys (or values) of one request.
class KvRows {
 public:
  KvRows(const KvPages& pages, Activation* pool, int layer,
         const AttentionShape& shape, const int32_t* page_table)
      : base_(Floats(pool) + static_cast<size_t>(layer) * pages.num_pages *
                                 shape.kv_width() * pages.page_size),
        page_table_(page_table),
        page_size_(pages.page_size),
        num_heads_(shape.kv_heads),
        head_dim_(shape.head_dim) {}

  // The head_dim floats at KV index `index` of head `head`.
  float* at(int index, int head) const {
    const size_t page = page_table_[index / page_size_];
    const size_t row =
        (page * num_heads_ + head) * page_size_ + index % page_size_;
    return base_ + row * head_dim_;
  }

 private:
  float* base_;
  const int32_t* page_table_;
  int page_size_;
  int num_heads_;
  int head_dim_;
};

// out = rotate(norm(x)): the first rotary_dim dimensions are turned in pairs
// (i, i + rotary_dim / 2) by position * inverse_frequency[i].
void NormAndRotate(const QkvParams& p, const float* x, const float* weight,
                   int position, float* out) {
  const int dim = p.shape.head_dim;
  float sum = 0;
  for (int c = 0; c < dim; ++c) sum += x[c] * x[c];
  const float scale = 1 / std::sqrt(sum / static_cast<float>(dim) + p.epsilon);
  for (int c = 0; c < dim; ++c) out[c] = x[c] * scale * weight[c];

  const int half = p.shape.rotary_dim / 2;
  for (int c = 0; c < half; ++c) {
    const float angle = static_cast<float>(position) * p.inverse_frequency[c];
    const float cosine = std::cos(angle) * p.rotary_scale;
    const float sine = std::sin(angle) * p.rotary_scale;
    const float a = out[c];
    const float b = out[c + half];
    out[c] = a * cosine - b * sine;
    out[c + half] = b * cosine + a * sine;
  }
}

// Consecutive KV indices within one page.
struct Run {
  int first;
  int count;
};

// Appends [first, last), cut at the borders of pages.
void AppendRuns(int first, int last, int page_size, std::vector<Run>& runs) {
  while (first < last) {
    const int end = std::min(last, (first / page_size + 1) * page_size);
    runs.push_back({first, end - first});
    first = end;
  }
}

// The KV indices that a row sees, in order: the prefix, then its ancestors.
void VisibleRuns(const AttentionParams& p, int row, std::vector<Run>& runs) {
  const RowBatch& batch = p.batch;
  const int page_size = p.pages.page_size;
  const int first_node = p.first_key + batch.committed[batch.request[row]];
  const int num_nodes = batch.node[row] + 1;
  runs.clear();
  if (batch.mask_words == 0) {
    AppendRuns(p.first_key, first_node + num_nodes, page_size, runs);
    return;
  }
  AppendRuns(p.first_key, first_node, page_size, runs);
  const uint32_t* mask =
      batch.ancestors + static_cast<size_t>(row) * batch.mask_words;
  for (int j = 0; j < num_nodes; ++j) {
    if ((mask[j / 32] >> (j % 32) & 1) == 0) continue;
    AppendRuns(first_node + j, first_node + j + 1, page_size, runs);
  }
}

// Turns scores into softmax weights, in place.
void Softmax(std::span<float> scores) {
  const float max = *std::max_element(scores.begin(), scores.end());
  float sum = 0;
  for (float& score : scores) {
    score = std::exp(score - max);
    sum += score;
  }
  for (float& score : scores) score /= sum;
}

// Attends with the query heads of one row that share a KV head.
void AttendGroup(const AttentionParams& p, int row, int kv_head) {
  thread_local std::vector<Run> runs;
  thread_local std::vector<float> scores;  // [group, visible]
  const int dim = p.shape.head_dim;
  const int group = p.shape.query_heads / p.shape.kv_heads;
  const int first_head = kv_head * group;
  const int32_t* page_table =
      p.batch.page_table +
      static_cast<size_t>(p.batch.request[row]) * p.batch.max_pages;
  const KvRows keys(p.pages, p.pages.k, p.layer, p.shape, page_table);
  const KvRows values(p.pages, p.pages.v, p.layer, p.shape, page_table);
  const size_t first_row =
      (static_cast<size_t>(row) * p.shape.query_heads + first_head) * dim;
  const float* q = Floats(p.q) + first_row;
  float* out = Floats(p.out) + first_row;

  VisibleRuns(p, row, runs);
  int visible = 0;
  for (const Run& run : runs) visible += run.count;
  scores.resize(static_cast<size_t>(group) * visible);
  const float scale = 1 / std::sqrt(static_cast<float>(dim));
  for (int h = 0; h < group; ++h) {
    const std::span<float> head_scores =
        std::span(scores).subspan(static_cast<size_t>(h) * visible, visible);
    float* score = head_scores.data();
    for (const Run& run : runs) {
      DotRows(q + static_cast<size_t>(h) * dim, keys.at(run.first, kv_head),
              run.count, dim, score);
      score += run.count;
    }
    for (float& value : head_scores) value *= scale;
    Softmax(head_scores);
  }

  std::fill_n(out, static_cast<size_t>(group) * dim, 0.0f);
  const float* weight = scores.data();
  for (const Run& run : runs) {
    AddProduct({.rows = group,
                .columns = dim,
                .depth = run.count,
                .a = weight,
                .a_row = static_cast<size_t>(visible),
                .a_depth = 1,
                .b = values.at(run.first, kv_head),
                .b_row = static_cast<size_t>(dim),
                .c = out,
                .c_row = static_cast<size_t>(dim)});
    weight += run.count;
  }
}

// Copies one KV index of a request to another, in every layer and head.
void MoveKv(const CompactKvParams& p, int request, int from, int to) {
  const int32_t* page_table =
      p.batch.page_table + static_cast<size_t>(request) * p.batch.max_pages;
  for (int layer = 0; layer < p.num_layers; ++layer) {
    const KvRows keys(p.pages, p.pages.k, layer, p.shape, page_table);
    const KvRows values(p.pages, p.pages.v, layer, p.shape, page_table);
    for (int head = 0; head < p.shape.kv_heads; ++head) {
      std::copy_n(keys.at(from, head), p.shape.head_dim, keys.at(to, head));
      std::copy_n(values.at(from, head), p.shape.head_dim, values.at(to, head));
    }
  }
}

// out *= sigmoid(gate), every query head of one row.
void ApplyGates(const AttentionParams& p, int row) {
  const int dim = p.shape.head_dim;
  const float* projected = Floats(p.projected) +
                           static_cast<size_t>(row) * p.shape.projected_width();
  float* out = Floats(p.out) + static_cast<size_t>(row) * p.shape.query_width();
  for (int head = 0; head < p.shape.query_heads; ++head) {
    const float* gate = projected + static_cast<size_t>(2 * head + 1) * dim;
    for (int c = 0; c < dim; ++c) out[head * dim + c] *= Sigmoid(gate[c]);
  }
}

}  // namespace

void PrepareQkv(const QkvParams& p, ThreadPool& pool) {
  const AttentionShape& s = p.shape;
  pool.ParallelFor(*p.batch.rows.count, [&](int row) {
    const int request = p.batch.request[row];
    const int committed = p.batch.committed[request];
    const int position = committed + p.batch.depth[row];
    const int index = p.first_key + committed + p.batch.node[row];
    const float* projected =
        Floats(p.projected) + static_cast<size_t>(row) * s.projected_width();
    const int32_t* page_table =
        p.batch.page_table + static_cast<size_t>(request) * p.batch.max_pages;
    const KvRows keys(p.pages, p.pages.k, p.layer, s, page_table);
    const KvRows values(p.pages, p.pages.v, p.layer, s, page_table);

    for (int head = 0; head < s.query_heads; ++head) {
      NormAndRotate(
          p, projected + static_cast<size_t>(2 * head) * s.head_dim, p.q_norm,
          position,
          Floats(p.q) +
              (static_cast<size_t>(row) * s.query_heads + head) * s.head_dim);
    }
    for (int head = 0; head < s.kv_heads; ++head) {
      const size_t column = static_cast<size_t>(head) * s.head_dim;
      NormAndRotate(p, projected + s.k_column() + column, p.k_norm, position,
                    keys.at(index, head));
      std::copy_n(projected + s.v_column() + column, s.head_dim,
                  values.at(index, head));
    }
  });
}

void Attend(const AttentionParams& p, ThreadPool& pool) {
  pool.ParallelFor(*p.batch.rows.count, [&](int row) {
    for (int head = 0; head < p.shape.kv_heads; ++head) {
      AttendGroup(p, row, head);
    }
    ApplyGates(p, row);
  });
}

void CompactKv(const CompactKvParams& p) {
  for (int b = 0; b < p.batch.max_requests; ++b) {
    const int committed = p.batch.committed[b];
    // Ascending: node >= place, so nothing is overwritten before it is moved.
    for (int i = p.path.first[b]; i < p.path.first[b + 1]; ++i) {
      const int from = committed + p.batch.node[p.path.row[i]];
      const int to = committed + i - p.path.first[b];
      if (from != to) MoveKv(p, b, from, to);
    }
  }
}

}  // namespace bole::reference
