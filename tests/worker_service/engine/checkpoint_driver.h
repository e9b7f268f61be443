// Sequences on one engine that leave checkpoints and go on from them, planned
// by hand.
#ifndef BOLE_TESTS_WORKER_SERVICE_ENGINE_CHECKPOINT_DRIVER_H_
#define BOLE_TESTS_WORKER_SERVICE_ENGINE_CHECKPOINT_DRIVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/draft_shape.h"
#include "common/ids.h"
#include "common/proposal_tree.h"
#include "common/sampling_params.h"
#include "common/step.h"
#include "kernels/backend.h"
#include "worker_service/engine/engine.h"
#include "worker_service/loading/loaded_model.h"
#include "worker_service/model/sequence_memory.h"

namespace bole::testing_support {

// How many ids may be drawn: the whole vocabulary if no file of the model tells
// which of them are valid.
int NumTokens(const LoadedModel& model);

// A slot in which no sequence runs, and the pages of the sequence that left it.
struct LeftCheckpoint {
  SlotId slot{0};
  int length = 0;
  std::vector<PageId> pages = {};
  int undrafted = 0;     // Tokens that its drafter has not seen.
  bool on_host = false;  // Slot and pages are places on the host.
};

// Which of the necessary steps a request takes that goes on from a checkpoint.
struct GoingOn {
  bool shows_tail = true;
  bool copies_page = true;
  bool output_to_prompt = true;
};

// Requests that run in slots 0 .. kRequests - 1, with pages of their own, and
// checkpoints in the slots above. Plans are made part by part: Add...(), and
// then Run(). Failed steps are failed expectations.
class CheckpointDriver {
 public:
  static constexpr int kRequests = 4;
  static constexpr int kMostTogether = 3;  // Chunks and trees of a plan.
  static constexpr int kCheckpoints = 5;
  static constexpr int kMaxContext = 320;
  static constexpr DraftShape kTree{.top_k = 3, .depth = 4};
  static constexpr DraftShape kChain{.top_k = 1, .depth = 3};

  // `model` was loaded into `backend`; both must outlive this.
  CheckpointDriver(const LoadedModel& model, Backend& backend, int page_size);

  // Begins a new request in slot `number`.
  void Begin(int number, std::vector<int32_t> prompt,
             const SamplingParams& sampling = {});
  // The same for a request whose first `from.length` tokens are those of a
  // checkpoint: the next plan makes the copies for it.
  void Begin(int number, std::vector<int32_t> prompt,
             const SamplingParams& sampling, const LeftCheckpoint& from,
             const GoingOn& how = {});
  // How many pages the next plan copies on the device.
  int num_page_copies() const { return static_cast<int>(copies_.pages.size()); }
  // The request in the slot goes on as another one whose prompt begins with the
  // committed tokens. Nothing is copied.
  void GoOnInPlace(int number, std::vector<int32_t> prompt);
  // The next plan copies the slot, as it is before that plan, to the slot of
  // checkpoint `index`.
  LeftCheckpoint Leave(int number, int index);
  // The same with a slot on the host, to which the pages are copied as well.
  LeftCheckpoint LeaveOnHost(int number, int index);

  // Add to the next plan a chunk of the next `num_tokens` tokens of the prompt,
  // or of as many as are left, and a tree. The forest gets the likeliest nodes
  // of all trees, as many as their `nodes` together.
  void AddChunk(int number, int num_tokens = kMaxContext);
  void AddTree(int number, int nodes);
  // Runs the next plan. Without a draft, the plan defers it.
  StepResult Run(const std::optional<DraftShape>& draft);

  // Runs the rest of the prompt in chunks of `chunk_tokens`, each in a plan of
  // its own. Returns the last result.
  SequenceResult Prefill(int number, int chunk_tokens = kMaxContext);
  // Runs a plan that has nothing but a tree of the request.
  SequenceResult Round(int number, int nodes,
                       const std::optional<DraftShape>& draft);

  // Committed tokens and the pending one.
  const std::vector<int32_t>& tokens(int number) const {
    return requests_[number].tokens;
  }
  int committed(int number) const { return requests_[number].plan.committed; }
  const Engine& engine() const { return *engine_; }

  // Fills keys and values of every page and layer with this byte. 0xff makes
  // them NaN.
  void FillPages(char byte);

  // The bytes that slot and pages hold of a request's committed tokens, part by
  // part with the part's name. REQUIRES: the request's last round has drafted.
  std::vector<std::pair<std::string, std::vector<char>>> Content(
      int number) const;

 private:
  struct Request {
    SequencePlan plan = {};
    std::vector<int32_t> tokens = {};
    ProposalTree tree = {};
    int undrafted = 0;
  };
  SequencePlan PlanOf(Request& request, bool shows_tail);
  void Take(int number, const SequenceResult& result);
  std::vector<char> Bytes(const MemoryPart& part, size_t at,
                          size_t count) const;

  const LoadedModel& model_;
  Backend& backend_;
  std::unique_ptr<Engine> engine_;
  Request requests_[kRequests];
  // The contents of the next plan.
  MemoryCopies to_host_, from_host_, copies_;
  std::vector<std::pair<int, int>> chunks_;  // Request, tokens.
  std::vector<std::pair<int, int>> trees_;   // Request, nodes.
};

// Expects equal content, and names what differs.
void ExpectSameContent(const CheckpointDriver& a, int number_of_a,
                       const CheckpointDriver& b, int number_of_b);

}  // namespace bole::testing_support

#endif  // BOLE_TESTS_WORKER_SERVICE_ENGINE_CHECKPOINT_DRIVER_H_
