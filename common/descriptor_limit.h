// How many files and connections the process may have open.
#ifndef BOLE_COMMON_DESCRIPTOR_LIMIT_H_
#define BOLE_COMMON_DESCRIPTOR_LIMIT_H_

#include <cstddef>

namespace bole {

// Raises the limit on open descriptors to the most that the system allows this
// process, and returns it. Shells usually start programs with 1,024, which a
// server with a connection per client would use up.
size_t RaiseDescriptorLimit();

}  // namespace bole

#endif  // BOLE_COMMON_DESCRIPTOR_LIMIT_H_
