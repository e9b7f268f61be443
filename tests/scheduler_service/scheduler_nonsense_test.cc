// A scheduler whose worker returns what it should not.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/scheduler_fixture.h"
#include "tests/scheduler_service/simulated_worker.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

using ::bole::testing::MakeRequest;
using ::bole::testing::RandomPrompt;
using ::bole::testing::Reader;
using ::bole::testing::SchedulerTest;
using ::bole::testing::SimulatedWorker;
using ::bole::testing::TreeOptions;
using ::bole::testing::UniformInt;

// Changes one field of a result, to a value nearby or to an extreme one.
class Spoiler {
 public:
  explicit Spoiler(std::mt19937& rng) : rng_(rng) {}

  void Spoil(WorkerOutcome& outcome) {
    StepResult& result = *outcome.result;
    switch (UniformInt(rng_, 0, 9)) {
      case 0:
        return Change(outcome.plan_number);
      case 1:
        return Change(result.round);
      case 2:
        result.is_last = !result.is_last;
        return;
      case 3:
        return Resize(result.prefills);
      case 4:
        return Resize(result.sequences);
      case 5:
        return SpoilForest(result.forest);
      default:
        break;
    }
    auto& results =
        result.sequences.empty() ? result.prefills : result.sequences;
    if (!results.empty()) SpoilSequence(OneOf(results));
  }

 private:
  template <typename T>
  T& OneOf(std::vector<T>& values) {
    return values[UniformInt(rng_, 0, static_cast<int>(values.size()) - 1)];
  }
  template <typename T>
  void Change(T& number) {
    using Limits = std::numeric_limits<T>;
    const T values[] = {static_cast<T>(number - 1), static_cast<T>(number + 1),
                        T{0}, Limits::lowest(), Limits::max()};
    number = values[UniformInt(rng_, 0, 4)];
  }
  void Change(float& number) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float values[] = {number - 1, number + 1, NAN, kInfinity, -kInfinity};
    number = values[UniformInt(rng_, 0, 4)];
  }
  template <typename T>
  void Resize(std::vector<T>& values) {
    if (values.empty() || UniformInt(rng_, 0, 1) == 0) {
      values.emplace_back();
    } else {
      values.pop_back();
    }
  }
  template <typename T>
  void ChangeOneOf(std::vector<T>& values) {
    if (!values.empty()) Change(OneOf(values));
  }

  void SpoilForest(std::optional<PackedForest>& forest) {
    if (!forest || UniformInt(rng_, 0, 4) == 0) {
      forest =
          forest ? std::nullopt : std::optional<PackedForest>(std::in_place);
      return;
    }
    std::vector<int32_t>* const arrays[] = {
        &forest->first_node, &forest->parent, &forest->token, &forest->depth};
    std::vector<int32_t>& array = *arrays[UniformInt(rng_, 0, 3)];
    if (UniformInt(rng_, 0, 1) == 0) return Resize(array);
    ChangeOneOf(array);
  }

  void SpoilSequence(SequenceResult& result) {
    switch (UniformInt(rng_, 0, 5)) {
      case 0:
        return Change(result.committed);
      case 1:
        return Change(result.accepted_drafts);
      case 2:
        return Resize(result.emitted);
      case 3:
        if (!result.emitted.empty()) SpoilToken(OneOf(result.emitted));
        return;
      case 4:
        return Change(result.promised_drafts.emplace());
      default:
        return SpoilTree(result.proposal);
    }
  }

  void SpoilToken(EmittedToken& token) {
    switch (UniformInt(rng_, 0, 2)) {
      case 0:
        return Change(token.token);
      case 1:
        return Change(token.logprob);
      default:
        return Resize(token.top);
    }
  }

  void SpoilTree(std::optional<ProposalTree>& tree) {
    if (!tree || UniformInt(rng_, 0, 6) == 0) {
      tree = tree ? std::nullopt : std::optional<ProposalTree>(std::in_place);
      return;
    }
    switch (UniformInt(rng_, 0, 3)) {
      case 0:
        return ChangeOneOf(tree->parent);
      case 1:
        return ChangeOneOf(tree->token);
      case 2:
        return ChangeOneOf(tree->log_rho);
      default:
        return Resize(tree->token);
    }
  }

  std::mt19937& rng_;
};

class NonsenseTest : public SchedulerTest,
                     public ::testing::WithParamInterface<int> {
 protected:
  static StepLimits Limits() {
    StepLimits limits = SimulatedWorker::SmallLimits();
    limits.num_pages = 24;
    limits.max_lease_rounds = GetParam() % 2 == 0 ? 4 : 1;
    return limits;
  }
  static SchedulerOptions Options() {
    SchedulerOptions options = TreeOptions();
    if (GetParam() % 3 == 0) options.speculation.mode = SpeculationMode::kOff;
    return options;
  }
  NonsenseTest() : SchedulerTest(Options(), Limits()) { rng_.seed(GetParam()); }

  // Whatever round is awaited is late from now on.
  void PassDeadline() {
    now_ += std::chrono::hours(1);
    Look();
  }

  Reader AskOne() {
    auto request = MakeRequest(RandomPrompt(rng_, UniformInt(rng_, 1, 150)),
                               UniformInt(rng_, 1, 60), now_);
    request->sampling.logprobs = true;
    request->sampling.top_logprobs = UniformInt(rng_, 0, 2);
    request->stop_tokens = {'q'};
    return Ask(std::move(request));
  }
};

// The worker itself checks that every plan it gets is one that it can run: what
// a scheduler takes never leads it to another.
TEST_P(NonsenseTest, IsRefusedOrSurvivedAndEveryRequestEnds) {
  Spoiler spoiler(rng_);
  std::vector<Reader> readers;
  int refused = 0;
  int survived = 0;
  // What survives in a round of a lease may be wrong only in a later one.
  bool plan_is_spoiled = false;
  for (int i = 0; i < 1500; ++i) {
    SCOPED_TRACE(i);
    now_ += std::chrono::milliseconds(1);
    if (!scheduler_.status().connected()) Tell(worker_.Connect());
    if (!worker_.has_plan() || UniformInt(rng_, 0, 9) == 0) {
      readers.push_back(AskOne());
    }
    if (!worker_.has_plan()) {
      // A spoiled result said that another round follows, of which the worker
      // knows nothing: only the deadline of the round can tell.
      ASSERT_TRUE(plan_is_spoiled);
      PassDeadline();
      ASSERT_FALSE(worker_.disconnected().ok());
      continue;
    }
    WorkerOutcome outcome = worker_.Run();
    if (outcome.result->round == 0) plan_is_spoiled = false;
    const bool spoil = UniformInt(rng_, 0, 3) == 0;
    if (spoil) spoiler.Spoil(outcome);
    plan_is_spoiled = plan_is_spoiled || spoil;
    Tell(std::move(outcome));
    ASSERT_EQ(scheduler_.status().audit, "");
    ASSERT_EQ(scheduler_.status().connected(), worker_.disconnected().ok());
    if (!plan_is_spoiled) {
      ASSERT_TRUE(worker_.disconnected().ok()) << worker_.disconnected();
    }
    refused += !worker_.disconnected().ok() ? 1 : 0;
    survived += spoil && worker_.disconnected().ok() ? 1 : 0;
    ASSERT_FALSE(HasFailure());
  }
  PassDeadline();
  if (!scheduler_.status().connected()) Tell(worker_.Connect());
  RunAll();

  ExpectAllFree();
  EXPECT_GT(refused, 100);
  EXPECT_GT(survived, 10);
  int ended = 0;
  for (Reader& reader : readers) {
    reader.Read();
    ASSERT_TRUE(reader.end.has_value());
    ended += reader.end->ok() ? 1 : 0;
    if (!reader.end->ok()) {
      EXPECT_TRUE(absl::IsUnavailable(reader.end->status()))
          << reader.end->status();
    }
  }
  EXPECT_GT(ended, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, NonsenseTest, ::testing::Range(1, 7));

}  // namespace
}  // namespace bole
