#include "common/descriptor_limit.h"

#include <sys/resource.h>

#include "common/check.h"

namespace bole {

size_t RaiseDescriptorLimit() {
  rlimit limit;
  BOLE_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit raised = {.rlim_cur = limit.rlim_max,
                         .rlim_max = limit.rlim_max};
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) return raised.rlim_cur;
  return limit.rlim_cur;
}

}  // namespace bole
