#include "scheduler_service/door/asked_models.h"

#include "common/status_macros.h"

namespace bole {

absl::StatusOr<AskedModel> AskedModels::Find(std::string_view name) const {
  BOLE_ASSIGN_OR_RETURN(const ModelId id, catalog_.Find(name));
  return At(id);
}

std::vector<AskedModel> AskedModels::All() const {
  std::vector<AskedModel> all;
  all.reserve(catalog_.size());
  for (int i = 0; i < catalog_.size(); ++i) all.push_back(At(ModelId(i)));
  return all;
}

AskedModel AskedModels::At(ModelId id) const {
  const CatalogModel& model = catalog_.at(id);
  return {.id = id,
          .name = model.name,
          .text = model.text,
          .workers = presence_.Get(id)};
}

}  // namespace bole
