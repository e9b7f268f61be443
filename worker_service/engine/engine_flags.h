// Command-line flags of an engine's sizes.
#ifndef BOLE_WORKER_SERVICE_ENGINE_ENGINE_FLAGS_H_
#define BOLE_WORKER_SERVICE_ENGINE_ENGINE_FLAGS_H_

#include "common/command_line.h"
#include "worker_service/engine/engine.h"

namespace bole {

// Adds flags that set `options`, whose current values are the defaults.
void AddEngineFlags(CommandLine& command, EngineOptions& options);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_ENGINE_FLAGS_H_
