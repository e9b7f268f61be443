// Answers with a wrong number, which only the wire can carry.
#ifndef BOLE_TESTS_SIMULATION_NUMBER_SPOILER_H_
#define BOLE_TESTS_SIMULATION_NUMBER_SPOILER_H_

#include <cstdint>

namespace bole::simulation {

// The number of an answer is WorkerService's own, so an interceptor changes it
// in the message. From here on every gRPC server that this process starts has
// it. Once is enough, more does nothing.
void InstallNumberSpoiler();

// Adds `offset` to the number of the next outcome that any server sends. It may
// be called by any thread.
void SpoilNextNumber(uint64_t offset);

}  // namespace bole::simulation

#endif  // BOLE_TESTS_SIMULATION_NUMBER_SPOILER_H_
