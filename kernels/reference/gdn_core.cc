#include "kernels/reference/gdn_core.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/check.h"
#include "kernels/reference/gdn_closed_form.h"
#include "kernels/reference/gdn_recurrence.h"
#include "kernels/reference/gdn_views.h"

namespace bole::reference {
namespace {

constexpr int kChunk = 64;

RowRange RequestRows(const RowBatch& batch, int request) {
  const int first = batch.first_row[request];
  return {.first = first, .count = batch.first_row[request + 1] - first};
}

float* State(const GdnCoreParams& p, int request, int head) {
  return HeadState(p.shape, p.states, p.batch.slot[request], p.layer, head);
}

size_t StateSize(const GdnShape& shape) {
  return static_cast<size_t>(shape.value_dim) * shape.key_dim;
}

Readout RowReadout(const GdnCoreParams& p, int row, int head) {
  const GdnShape& s = p.shape;
  const size_t key_row =
      static_cast<size_t>(row) * s.key_heads + KeyHead(s, head);
  const size_t value_row = static_cast<size_t>(row) * s.value_heads + head;
  return {.q = Floats(p.q) + key_row * s.key_dim,
          .q_scale = p.q_scale[key_row],
          .out = Floats(p.out) + value_row * s.value_dim};
}

// Verifies node by node, with a copy of the parent's state for each.
void VerifySerially(const GdnCoreParams& p, int request, int head) {
  thread_local std::vector<float> states;  // [T, dv, dk] if not kept.
  const RowRange range = RequestRows(p.batch, request);
  const GdnFactorRows factors(p.shape, p.factors, p.layer);
  const size_t size = StateSize(p.shape);
  const bool keeps = p.factors.node_states != nullptr;
  if (!keeps) states.resize(range.count * size);
  const auto state_after = [&](int i) {
    return keeps ? NodeState(p.shape, p.factors, p.layer, range.first + i, head)
                 : &states[i * size];
  };
  for (int i = 0; i < range.count; ++i) {
    const int row = range.first + i;
    const int parent = p.batch.parent[row];
    float* state = state_after(i);
    if (parent >= 0) {
      std::copy_n(state_after(parent), size, state);
    } else if (p.batch.committed[request] > 0) {
      std::copy_n(State(p, request, head), size, state);
    } else {
      std::fill_n(state, size, 0.0f);
    }
    const Readout readout = RowReadout(p, row, head);
    StepHead(factors, row, head, &readout, state);
  }
}

void VerifyKeyHead(const GdnCoreParams& p, int request, int key_head) {
  thread_local ClosedForm closed_form;
  const int group = p.shape.value_heads / p.shape.key_heads;
  const bool from_zero = p.batch.committed[request] == 0;
  if (p.solver != TreeSolver::kSerial) {
    closed_form.LoadKeyHead(p, RequestRows(p.batch, request), key_head);
  }
  for (int head = key_head * group; head < (key_head + 1) * group; ++head) {
    if (p.solver == TreeSolver::kSerial) {
      VerifySerially(p, request, head);
    } else {
      closed_form.Solve(head, from_zero ? nullptr : State(p, request, head),
                        p.solver);
    }
  }
}

void PrefillKeyHead(const GdnCoreParams& p, int request, int key_head) {
  thread_local ClosedForm closed_form;
  const int group = p.shape.value_heads / p.shape.key_heads;
  const RowRange rows = RequestRows(p.batch, request);
  const int committed = p.batch.committed[request];
  for (int done = 0; done < rows.count;) {
    const int position = committed + done;
    const int count = std::min(kChunk - position % kChunk, rows.count - done);
    closed_form.LoadKeyHead(p, {.first = rows.first + done, .count = count},
                            key_head);
    const bool from_zero = position == 0;
    for (int head = key_head * group; head < (key_head + 1) * group; ++head) {
      float* state = State(p, request, head);
      closed_form.Solve(head, from_zero ? nullptr : state, TreeSolver::kBlocks);
      closed_form.AdvanceChain(from_zero, state);
    }
    done += count;
  }
}

}  // namespace

void GdnVerify(const GdnCoreParams& p, ThreadPool& pool) {
  const int heads = p.shape.key_heads;
  pool.ParallelFor(p.batch.max_requests * heads, [&](int task) {
    if (RequestRows(p.batch, task / heads).count == 0) return;
    VerifyKeyHead(p, task / heads, task % heads);
  });
}

void GdnDecode(const GdnCoreParams& p, ThreadPool& pool) {
  const int heads = p.shape.value_heads;
  const GdnFactorRows factors(p.shape, p.factors, p.layer);
  pool.ParallelFor(p.batch.max_requests * heads, [&](int task) {
    const int request = task / heads;
    const int head = task % heads;
    const RowRange rows = RequestRows(p.batch, request);
    if (rows.count == 0) return;
    BOLE_CHECK(rows.count == 1);
    float* state = State(p, request, head);
    if (p.batch.committed[request] == 0) {
      std::fill_n(state, StateSize(p.shape), 0.0f);
    }
    const Readout readout = RowReadout(p, rows.first, head);
    StepHead(factors, rows.first, head, &readout, state);
  });
}

void GdnPrefill(const GdnCoreParams& p, ThreadPool& pool) {
  BOLE_CHECK(p.batch.mask_words == 0);
  const int heads = p.shape.key_heads;
  pool.ParallelFor(p.batch.max_requests * heads, [&](int task) {
    PrefillKeyHead(p, task / heads, task % heads);
  });
}

}  // namespace bole::reference
