// The measurements of round_bench. Each prints what it finds.
#ifndef BOLE_TESTS_BENCH_ROUNDS_H_
#define BOLE_TESTS_BENCH_ROUNDS_H_

#include <chrono>

namespace bole {

inline constexpr int kBenchRounds = 1000;
// How many of these are left out. The first ones fill caches and queues, and in
// the last ones requests end.
inline constexpr int kWarmUpRounds = 50;
inline constexpr int kLastRounds = 20;
// A worker computes for milliseconds, in which the scheduler's threads fall
// asleep and caches grow cold.
inline constexpr std::chrono::milliseconds kBenchStep(3);

// The loop with its codec, from the bytes of a result to those of a plan.
void RunInMemory();

// The scheduler's server and a worker that answers without computing, over
// loopback: from writing a result to having read the plan. Beside it the same
// messages with nothing between them.
void RunOverGrpc();

// Both services with the demo model: what of a round is not its engine's.
void RunDemoModel();

}  // namespace bole

#endif  // BOLE_TESTS_BENCH_ROUNDS_H_
