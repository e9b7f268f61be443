// What the scheduler adds to a round, for 16 requests with 116 candidates each:
// from a result's arrival to the next plan on the wire, first by itself and
// then with gRPC around it; and the share of a round of the demo model that
// passes outside of its engine.
#include "tests/bench/rounds.h"

int main() {
  bole::RunInMemory();
  bole::RunOverGrpc();
  bole::RunDemoModel();
  return 0;
}
