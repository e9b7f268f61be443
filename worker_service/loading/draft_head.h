// Which tokens the drafter chooses among. The target chooses among all, so the
// text is the same; a smaller head only makes drafting cheaper.
#ifndef BOLE_WORKER_SERVICE_LOADING_DRAFT_HEAD_H_
#define BOLE_WORKER_SERVICE_LOADING_DRAFT_HEAD_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "common/command_line.h"
#include "kernels/backend.h"
#include "worker_service/loading/loaded_model.h"
#include "worker_service/model/weights.h"

namespace bole {

enum class DraftHead {
  kAuto,    // kListed if the checkpoint has a list, else kFull.
  kFull,    // All tokens.
  kListed,  // The tokens of kDraftTokensFile.
};

// Adds --draft-head, which sets `head`; its current value is the default.
void AddDraftHeadFlag(CommandLine& command, DraftHead& head);

// Gives the drafter of a model that was loaded from `directory` its head. A
// synthetic model has a list of its own.
// Errors: those of LoadDraftTokens(); INVALID_ARGUMENT if kListed is requested
// and there is no drafter; RESOURCE_EXHAUSTED without room for the second head.
absl::Status SetDraftHead(const std::string& directory, DraftHead head,
                          Backend& backend, LoadedModel& model);

// Gives the drafter a head of its own with these tokens, which are ascending.
// Each rank keeps those rows that it also has of the target's head.
// REQUIRES: weights.drafter; at least kMinDraftTokens tokens, all of them in
//     the vocabulary.
absl::Status RestrictDraftHead(std::span<const int32_t> tokens,
                               Backend& backend, Weights& weights);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_LOADING_DRAFT_HEAD_H_
