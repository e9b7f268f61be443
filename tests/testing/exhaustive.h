// How much a suite tries that could go on for hours.
#ifndef BOLE_TESTS_TESTING_EXHAUSTIVE_H_
#define BOLE_TESTS_TESTING_EXHAUSTIVE_H_

#include <cstdlib>

namespace bole::testing {

// Whether BOLE_EXHAUSTIVE is set, as tests/nightly.sh sets it: suites that
// choose among seeds, prompts or settings then take all of them. Without it
// they take the few that fit into a run before each commit.
inline bool Exhaustive() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing changes the environment.
  return std::getenv("BOLE_EXHAUSTIVE") != nullptr;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_TESTING_EXHAUSTIVE_H_
