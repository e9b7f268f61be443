// Random inputs of the attention operators, on the host.
#ifndef BOLE_TESTS_KERNELS_ATTENTION_PROBLEM_H_
#define BOLE_TESTS_KERNELS_ATTENTION_PROBLEM_H_

#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "kernels/attention.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/random_forest.h"

namespace bole::testing {

// What nobody should write. Not NaN, which is what an operator that reads too
// far would write.
inline constexpr float kUntouched = -7777;

struct AttentionOptions {
  AttentionShape shape;
  int page_size = 4;
  int num_layers = 2;
  int first_key = 0;
  int spare_pages = 2;
  bool with_prefix = true;  // False: only the pages of the nodes exist.
};

// Everything that the operators of attention read and write, owned. Copies are
// independent.
//
// Pages are shuffled. Keys, values, q and projected rows are NaN and page
// tables poison beyond the pages that exist; out is untouched.
struct AttentionProblem {
  // Takes the committed counts from the batch and gives it page tables.
  AttentionProblem(std::mt19937& rng, const AttentionOptions& options,
                   HostBatch host_batch);

  KvPages Pages();
  AttentionParams Params(int layer);

  // [hd] at a KV index of a request.
  std::span<float> Key(int layer, int request, int index, int head);
  std::span<float> Value(int layer, int request, int index, int head);

  // [hd] of a row's query head.
  std::span<float> Query(int row, int head);
  std::span<float> Gate(int row, int head);
  std::span<float> Out(int row, int head);

  // The KV indices that a row may see, in order.
  std::vector<int> Visible(int row) const;
  // Its keys and values are random, the queries and gates of all rows too.
  void FillInputs(std::mt19937& rng, int layer);

  size_t used_out() const {
    return static_cast<size_t>(batch.num_rows()) * shape.query_width();
  }

  AttentionShape shape;
  int page_size;
  int num_layers;
  int first_key;
  int num_pages;
  HostBatch batch;
  GuardedBuffer<float> k, v;               // [layers, pages, Hkv, page, hd]
  GuardedBuffer<float> q, projected, out;  // [N, ...]

 private:
  size_t KvOffset(int layer, int request, int index, int head) const;
};

// Copies the inputs of a row of `from` to row 0 of `to`, and the keys and
// values that it sees to KV indices to.first_key, to.first_key + 1, ...
void CopyAsPlain(AttentionProblem& from, int row, int layer,
                 AttentionProblem& to);

// The same problem where keys and values begin at another KV index.
AttentionProblem WithFirstKey(std::mt19937& rng, AttentionProblem& from,
                              int layer, int first_key);

// Hkv of 1 to 3, Hq 1, 2, 3 or 6 times that.
AttentionShape RandomShape(std::mt19937& rng);

// Trees of up to 3 roots, up to `max_committed` tokens before each, spare rows
// and spare requests.
HostBatch RandomBatch(std::mt19937& rng, int max_committed);

// A batch of one row of `batch`, by itself.
HostBatch OnlyRow(const HostBatch& batch, int row);

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_ATTENTION_PROBLEM_H_
