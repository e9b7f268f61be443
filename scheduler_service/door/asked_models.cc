#include "scheduler_service/door/asked_models.h"

#include "common/status_macros.h"

namespace bole {

absl::StatusOr<AskedModel> AskedModels::Find(std::string_view name) const {
  BOLE_ASSIGN_OR_RETURN(const ModelId id, catalog_.Find(name));
  const CatalogModel& model = catalog_.at(id);
  return AskedModel{.id = id,
                    .name = model.name,
                    .text = model.text,
                    .workers = presence_.Get(id)};
}

}  // namespace bole
