// Summaries of a flight recorder's file, for people.
#ifndef BOLE_CLIENTS_ROUNDS_ROUND_REPORT_H_
#define BOLE_CLIENTS_ROUNDS_ROUND_REPORT_H_

#include <string>

#include "clients/rounds/round_file.h"

namespace bole {

// A few lines: how many rounds of which outcomes, how long their phases took,
// what was verified and accepted, and the longest and the last round.
std::string RoundSummary(const RoundFile& file);

// Charts by round, oldest first: the times of their phases on top of each
// other, nodes against the budget, requests, and tokens.
std::string RoundSvg(const RoundFile& file);

}  // namespace bole

#endif  // BOLE_CLIENTS_ROUNDS_ROUND_REPORT_H_
