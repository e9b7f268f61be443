// The two-shot form of a sum over ranks against the one-shot form, bit by bit.
// Ranks may share a GPU, so that their blocks are few and small.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/collectives.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/ranks/push_collectives.h"
#include "kernels/cuda/ranks/reduce_form.h"
#include "kernels/graph_set.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/ranks/on_gpus.h"
#include "tests/kernels/cuda/ranks/reduce_rows.h"
#include "tests/testing/matrices.h"

namespace bole::testing {
namespace {

using cuda::CudaBackend;
using cuda::PushCollectives;
using cuda::ReduceForm;
using enum cuda::ReduceForm;

// Rows of which `used` are there, and their vectors of 16 bytes.
struct Sizes {
  int max_rows;
  int used;
  int vectors;
};

absl::Status ReduceInTurn(const std::vector<ReduceForm>& forms,
                          const AllReduceAddNormParams& params,
                          const CudaBackend& backend, PushCollectives& end) {
  absl::Status queued;
  for (const ReduceForm form : forms) {
    end.set_reduce_form(form);
    queued.Update(end.AllReduceAddNorm(params, backend.launch()));
  }
  return queued;
}

class AllReduceFormsTest : public CudaTest {
 protected:
  int WidthOf(int vectors) const { return vectors * (is_float() ? 4 : 8); }

  // Calls body(backend, ranks, end) for each rank.
  template <typename F>
  void OnEnds(int num_ranks, std::chrono::milliseconds patience,
              const F& body) const {
    OnGpus({.num_ranks = num_ranks, .type = GetParam()},
           [&](CudaBackend& backend, Communicator& ranks) {
             auto end =
                 PushCollectives::Create(ranks.rank().index % NumGpus(),
                                         patience, ranks, backend.launch());
             ASSERT_TRUE(end.ok()) << end.status();
             body(backend, ranks, **end);
             // Nobody leaves while others still write to its memory.
             Meet(ranks);
           });
  }

  // What a rank has, or what the residual stream was: minus zeros too, one by
  // one, in pairs and in whole vectors, always in the same places, so that all
  // that is added is a minus zero; and the least numbers of both signs, whose
  // sums must not be rounded to zeros.
  std::vector<float> Content(int rank, int call, size_t size) const {
    std::mt19937 rng(1000 * rank + call);
    std::vector<float> x = NormalVector(rng, size);
    const float least = is_float() ? std::numeric_limits<float>::denorm_min()
                                   : std::ldexp(1.0f, -133);
    for (size_t i = 0; i < size; ++i) {
      if (i % 7 == 0 || i % 64 < 2 || i % 96 < 8) x[i] = -0.0f;
      if (i % 25 == 3) x[i] = (i / 25 + rank) % 3 == 0 ? least : -least;
    }
    return x;
  }

  // One call on one rank. Returns the residual stream and its norm.
  std::vector<float> Reduce(CudaBackend& backend, Communicator& ranks,
                            PushCollectives& end, ReduceForm form, int call,
                            const Sizes& sizes) const {
    const int width = WidthOf(sizes.vectors);
    const size_t used = static_cast<size_t>(sizes.used) * width;
    std::mt19937 rng(call);
    ReduceRows rows(
        backend, sizes.max_rows, Content(ranks.rank().index, call, used),
        Content(/*rank=*/100, call, used), NormalVector(rng, width));
    Meet(ranks);
    const absl::Status status =
        ReduceInTurn({form}, rows.params(), backend, end);
    EXPECT_TRUE(status.ok()) << status;
    rows.Fetch();
    Meet(ranks);
    EXPECT_TRUE(end.status().ok()) << end.status();

    const auto is_minus_zero = [](float x) {
      return x == 0 && std::signbit(x);
    };
    const std::span<const float> residual = rows.residual();
    EXPECT_TRUE(std::ranges::none_of(residual.first(used), is_minus_zero));
    const auto is_poison = [](float x) { return std::isnan(x); };
    EXPECT_TRUE(std::ranges::all_of(residual.subspan(used), is_poison));
    EXPECT_TRUE(std::ranges::all_of(rows.out().subspan(used), is_poison));
    std::vector<float> result = rows.Result();
    EXPECT_TRUE(std::ranges::none_of(result, is_poison));
    return result;
  }
};
BOLE_FOR_EACH_ELEMENT(AllReduceFormsTest);

constexpr std::chrono::seconds kPatience{20};

TEST_P(AllReduceFormsTest, BothHaveTheSameBitsOnEveryRank) {
  // Rows of fewer vectors than ranks too, and more rows than blocks.
  std::vector<Sizes> calls = {{130, 77, 8}, {40, 3, 33},   {16, 0, 8},
                              {3, 3, 1},    {5, 5, 2},     {9, 9, 3},
                              {33, 33, 64}, {2, 2, 640},   {2, 1, 1280},
                              {1, 1, 2048}, {300, 300, 8}, {300, 280, 40}};
  for (const int rows : {1, 2, 3, 4, 5, 7, 16, 31, 64, 129, 130}) {
    calls.push_back({rows, rows, 9});
  }
  const auto in_both_forms = [&](int call, CudaBackend& backend,
                                 Communicator& ranks, PushCollectives& end,
                                 SameOnAllRanks& same) {
    for (const int i : {call, call + 1}) {
      const ReduceForm form = i % 2 == 0 ? kOneShot : kTwoShot;
      same.Add(call, Reduce(backend, ranks, end, form, call, calls[call]));
    }
  };
  for (const int num_ranks : {2, 3, 4}) {
    SameOnAllRanks same;
    OnEnds(
        num_ranks, kPatience,
        [&](CudaBackend& backend, Communicator& ranks, PushCollectives& end) {
          for (int call = 0; call < std::ssize(calls); ++call) {
            in_both_forms(call, backend, ranks, end, same);
          }
        });
  }
}

// Whatever forms follow one another in a graph, and however many rows come.
TEST_P(AllReduceFormsTest, ReplaysOfBothFollowOneAnother) {
  constexpr int kRows = 40;
  constexpr int kVectors = 24;
  const int width = WidthOf(kVectors);
  const size_t size = static_cast<size_t>(kRows) * width;
  const std::vector<std::vector<ReduceForm>> sequences = {
      {kOneShot, kOneShot, kOneShot, kOneShot, kOneShot},
      {kTwoShot, kTwoShot, kTwoShot, kTwoShot, kTwoShot},
      {kOneShot, kTwoShot, kOneShot, kTwoShot, kOneShot},
      {kTwoShot, kTwoShot, kOneShot, kOneShot, kTwoShot}};
  const auto replay_all = [&](const std::vector<ReduceForm>& forms,
                              CudaBackend& backend, Communicator& ranks,
                              PushCollectives& end) {
    ReduceRows rows(backend, kRows, Content(ranks.rank().index, 0, size),
                    std::vector<float>(size, -0.0f),
                    std::vector<float>(width, 1.0f));
    const std::unique_ptr<GraphSet> graphs = backend.MakeGraphs(1);
    Meet(ranks);
    for (int replay = 0; replay < 30; ++replay) {
      // The first, which makes the graph, has no rows, so nobody waits for it.
      EXPECT_TRUE(rows.SetCount(replay * 13 % (kRows + 1)).ok());
      const absl::Status status = graphs->Replay({1}, [&] {
        return ReduceInTurn(forms, rows.params(), backend, end);
      });
      EXPECT_TRUE(status.ok()) << status;
      if (replay > 0) continue;
      rows.Fetch();
      Meet(ranks);
    }
    rows.Fetch();
    Meet(ranks);
    EXPECT_TRUE(end.status().ok()) << end.status();
    return rows.Result();
  };
  for (const int num_ranks : {2, 3, 4}) {
    SameOnAllRanks same;
    OnEnds(
        num_ranks, kPatience,
        [&](CudaBackend& backend, Communicator& ranks, PushCollectives& end) {
          for (const std::vector<ReduceForm>& forms : sequences) {
            same.Add(0, replay_all(forms, backend, ranks, end));
          }
        });
  }
}

// Ranks 0 and 1 come, and 2 does not. Every rank sums up some of eight vectors,
// and rank 0 alone a single one, which rank 1 then waits for.
TEST_P(AllReduceFormsTest, ARankThatDoesNotComeIsNamedInTime) {
  const auto miss = [&](int vectors, int named_by_rank_1) {
    OnEnds(
        3, std::chrono::milliseconds(300),
        [&](CudaBackend& backend, Communicator& ranks, PushCollectives& end) {
          const int rank = ranks.rank().index;
          const std::vector<float> ones(WidthOf(vectors), 1.0f);
          ReduceRows rows(backend, /*max_rows=*/1, ones, ones, ones);
          Meet(ranks);
          const auto begin = std::chrono::steady_clock::now();
          if (rank < 2) {
            // Those behind the first do not wait again.
            const std::vector<ReduceForm> forms(20, kTwoShot);
            EXPECT_TRUE(ReduceInTurn(forms, rows.params(), backend, end).ok());
            rows.Fetch();
            const int missing = rank == 0 ? 2 : named_by_rank_1;
            EXPECT_NE(end.status().message().find(
                          absl::StrCat("rank ", missing, " did not send")),
                      std::string::npos)
                << end.status();
            EXPECT_LT(std::chrono::steady_clock::now() - begin,
                      std::chrono::seconds(2));
          }
          Meet(ranks);
        });
  };
  miss(/*vectors=*/8, /*named_by_rank_1=*/2);
  miss(/*vectors=*/1, /*named_by_rank_1=*/0);
}

}  // namespace
}  // namespace bole::testing
