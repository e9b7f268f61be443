// Models that are served, of the tiny tokenizer.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_CATALOGS_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_CATALOGS_H_

#include <string>
#include <utility>
#include <vector>

#include "scheduler_service/models/model_catalog.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"

namespace bole::testing {

inline ModelCatalog TinyCatalog(const std::vector<std::string>& names) {
  std::vector<CatalogModel> models;
  models.reserve(names.size());
  for (const std::string& name : names) {
    CatalogModel model{.name = name, .text = {}};
    model.text.tokenizer = MakeTinyTokenizer();
    models.push_back(std::move(model));
  }
  return ModelCatalog(std::move(models));
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_CATALOGS_H_
