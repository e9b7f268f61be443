// What a scheduler reads most of, as bytes instead of arrays of varints: the
// candidates and the emitted tokens of a result. The fields of worker.proto
// that hold them say what lies in them.
#ifndef BOLE_PROTO_RAW_ARRAYS_H_
#define BOLE_PROTO_RAW_ARRAYS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/proposal_tree.h"
#include "common/step.h"

namespace bole {

// Encode*() returns false, and leaves `bytes` as it was, for what has no such
// form. Decode*() returns INVALID_ARGUMENT, saying what is wrong. All are
// O(size) and may be called by any thread.

// No such form: more than 32,767 nodes. REQUIRES: the tree's arrays have one
// length.
bool EncodeRawTree(const ProposalTree& tree, std::string& bytes);
// The bytes of whole nodes, of which Validate() holds.
absl::StatusOr<ProposalTree> DecodeRawTree(std::string_view bytes);

// No such form: no tokens, or one with alternatives.
bool EncodeRawTokens(const std::vector<EmittedToken>& tokens,
                     std::string& bytes);
// The bytes of whole tokens, none of which is negative.
absl::StatusOr<std::vector<EmittedToken>> DecodeRawTokens(
    std::string_view bytes);

}  // namespace bole

#endif  // BOLE_PROTO_RAW_ARRAYS_H_
