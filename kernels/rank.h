#ifndef BOLE_KERNELS_RANK_H_
#define BOLE_KERNELS_RANK_H_

namespace bole {

// One of the devices among which a model is cut (tensor parallelism). A model
// on one device is rank 0 of 1.
struct Rank {
  int index = 0;  // 0 .. count - 1
  int count = 1;

  friend bool operator==(const Rank&, const Rank&) = default;
};

}  // namespace bole

#endif  // BOLE_KERNELS_RANK_H_
