// The sizes of a pass of prefill chunks.
#ifndef BOLE_WORKER_SERVICE_ENGINE_PREFILL_H_
#define BOLE_WORKER_SERVICE_ENGINE_PREFILL_H_

#include <optional>

#include "worker_service/engine.h"

namespace bole {

struct Engine::PrefillShape {
  int requests;
  int rows;
  std::optional<DraftShape> draft;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_PREFILL_H_
