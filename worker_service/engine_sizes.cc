#include "worker_service/engine_sizes.h"

#include <algorithm>

namespace bole {

EngineOptions FitToModel(EngineOptions options, const LoadedModel& model) {
  options.num_valid_tokens = model.num_valid_tokens();
  if (options.max_context == 0) {
    options.max_context =
        std::min(model.config.max_context(), kMaxDefaultContext);
  }
  if (options.num_pages == 0) {
    const StepLimits limits{.max_draft = options.max_draft,
                            .page_size = options.page_size,
                            .max_context = options.max_context};
    options.num_pages = limits.MaxPages() * std::max(1, options.num_slots / 4);
  }
  return options;
}

}  // namespace bole
