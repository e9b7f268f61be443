// A worker without a model, which checks what it is asked to do.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_SIMULATED_WORKER_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_SIMULATED_WORKER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/step.h"
#include "scheduler_service/worker_client.h"

namespace bole::testing {

// The text of the simulated model: the token at `position`, after `previous`.
// Letters, so that it is text in the tiny tokenizer.
int32_t SimulatedToken(int position, int32_t previous);

// What the model writes after `prompt`.
std::vector<int32_t> SimulatedOutput(std::span<const int32_t> prompt,
                                     int num_tokens);

// Runs plans as an engine would, over memory that remembers which token each
// slot and page holds. A plan that an engine would refuse, that speaks of
// tokens the memory does not hold, or that is out of sequence is a failure of
// the test.
//
// Proposals hold the true continuation, up to a random depth, among others.
class SimulatedWorker : public WorkerClient {
 public:
  explicit SimulatedWorker(const StepLimits& limits) : limits_(limits) {}

  static StepLimits SmallLimits();

  // A new connection, with memory that holds nothing.
  WorkerEvent Connect();
  WorkerEvent Lose();

  void Send(uint64_t epoch, uint64_t plan_number,
            const StepPlan& plan) override;
  void Close(uint64_t epoch) override { closed_ = epoch; }
  void Disconnect(uint64_t epoch, const absl::Status& why) override;

  bool has_plan() const { return !plans_.empty(); }
  const StepPlan& next_plan() const { return plans_.front().plan; }
  // Runs the oldest plan, or the next round of its lease.
  WorkerOutcome Run();

  // From now on the model's logits after that position of the slot are not
  // numbers.
  void FailAt(SlotId slot, int position) { bad_[slot.value()] = position; }

  uint64_t epoch() const { return epoch_; }
  uint64_t closed() const { return closed_; }  // The last one; 0: none.
  // Why the connection was ended by the other side; OK if it was not.
  const absl::Status& disconnected() const { return disconnected_; }

 private:
  struct Sent {
    uint64_t epoch;
    uint64_t plan_number;
    StepPlan plan;  // As it is in the next round.
    int round = 0;
  };

  // Turns the plan of the round that was run into that of the next one, as the
  // lease says. Returns false if all its sequences have ended.
  bool Advance(Sent& sent, const StepResult& result) const;

  SequenceResult RunPrefill(const PrefillPlan& chunk,
                            const std::optional<DraftShape>& draft);
  SequenceResult RunTree(const StepPlan& plan, int request);
  // Tokens of slot and pages up to committed; fails the test if they differ.
  std::vector<int32_t>& Recall(const SequencePlan& sequence);
  void Commit(const SequencePlan& sequence, std::span<const int32_t> tokens);
  bool IsBad(const SequencePlan& sequence, int position) const;
  // Emits `token` if the sequence has not stopped. Returns whether it goes on.
  static bool Emit(const SequencePlan& sequence, int32_t token,
                   SequenceResult& result);
  ProposalTree Propose(int position, int32_t root, const DraftShape& shape);

  const StepLimits limits_;
  std::mt19937 rng_{7};
  uint64_t epoch_ = 0;
  uint64_t last_plan_number_ = 0;
  uint64_t closed_ = 0;
  absl::Status disconnected_;
  std::deque<Sent> plans_;
  std::map<int32_t, std::vector<int32_t>> slots_;
  std::map<int32_t, int> bad_;                       // Slots to positions.
  std::map<int32_t, std::map<int, int32_t>> pages_;  // Offset to token.
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_SIMULATED_WORKER_H_
