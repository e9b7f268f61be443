// How a scheduler identifies itself to its workers.
#ifndef BOLE_SCHEDULER_SERVICE_LINKS_SCHEDULER_IDENTITY_H_
#define BOLE_SCHEDULER_SERVICE_LINKS_SCHEDULER_IDENTITY_H_

#include <cstdint>
#include <string>

namespace bole {

// All links of a process have the same one.
struct SchedulerIdentity {
  std::string name;       // For people; 128 bytes at most.
  uint64_t instance = 0;  // Not 0: workers refuse that.
};

// Returns a random instance, named after this machine and the port that clients
// use: "gpu-1:50051".
SchedulerIdentity NewSchedulerIdentity(int port);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_LINKS_SCHEDULER_IDENTITY_H_
