// Files that commands write.
#ifndef BOLE_CLIENTS_CLI_WRITE_FILE_H_
#define BOLE_CLIENTS_CLI_WRITE_FILE_H_

#include <string>

namespace bole {

// Replaces the file. Prints an error to stderr if that fails. Returns the exit
// code.
int WriteFile(const std::string& path, const std::string& bytes);

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_WRITE_FILE_H_
