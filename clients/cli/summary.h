// What is said of an answer once it is complete, and while it comes.
#ifndef BOLE_CLIENTS_CLI_SUMMARY_H_
#define BOLE_CLIENTS_CLI_SUMMARY_H_

#include <string>

#include "proto/bole.pb.h"

namespace bole {

// A table, a line for each number. Times are the server's. The first token
// counts for its own time; tokens per second are those after it.
std::string Summary(const v1::GenerateComplete& complete);

// "128 tokens, 45.3 tokens/s". `tokens` so far, the last `tokens_since_first`
// of them in `seconds`.
std::string Progress(int tokens, int tokens_since_first, double seconds);

// How the server speculates: "tree, top-k 4, depth 8, 32 nodes", or "off".
std::string SpeculationText(const v1::SpeculationPolicy& policy);

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_SUMMARY_H_
