#ifndef BOLE_KERNELS_COLLECTIVES_KIND_H_
#define BOLE_KERNELS_COLLECTIVES_KIND_H_

namespace bole {

// How GPUs exchange what ranks compute together. Both give the same bits.
enum class CollectivesKind {
  kPush,  // Kernels write into each other's memory.
  kNccl,  // The reference, and for GPUs that cannot reach each other.
};

}  // namespace bole

#endif  // BOLE_KERNELS_COLLECTIVES_KIND_H_
