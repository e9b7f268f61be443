#include "clients/cli/write_file.h"

#include <cstdio>
#include <fstream>

#include "clients/cli/failure.h"

namespace bole {

int WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  if (file) return kExitOk;
  std::fprintf(stderr, "bole: cannot write %s\n", path.c_str());
  return kExitError;
}

}  // namespace bole
