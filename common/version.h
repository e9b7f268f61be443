// The version of Bole.
#ifndef BOLE_COMMON_VERSION_H_
#define BOLE_COMMON_VERSION_H_

namespace bole {

inline constexpr char kVersion[] = "0.2.0";

}  // namespace bole

#endif  // BOLE_COMMON_VERSION_H_
