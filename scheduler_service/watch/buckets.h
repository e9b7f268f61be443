// The buckets of the scheduler's histograms.
#ifndef BOLE_SCHEDULER_SERVICE_WATCH_BUCKETS_H_
#define BOLE_SCHEDULER_SERVICE_WATCH_BUCKETS_H_

#include "prometheus/histogram.h"

namespace bole {

// For waits of a request, in seconds.
inline const prometheus::Histogram::BucketBoundaries& WaitBuckets() {
  static const prometheus::Histogram::BucketBoundaries buckets = {
      .001, .0025, .005, .01, .025, .05, .1,  .25, .5,  1,
      2.5,  5,     10,   20,  40,   80,  160, 320, 640, 1280};
  return buckets;
}

// For the time between two tokens, in seconds: one round may emit several, so
// they may be far closer than rounds are.
inline const prometheus::Histogram::BucketBoundaries& TokenTimeBuckets() {
  static const prometheus::Histogram::BucketBoundaries buckets = {
      .0005, .001, .002, .003, .004, .006, .008, .01, .015, .02, .03,
      .04,   .06,  .08,  .1,   .2,   .4,   .8,   1.6, 3.2,  6.4};
  return buckets;
}

// For parts of a round, in seconds.
inline const prometheus::Histogram::BucketBoundaries& RoundBuckets() {
  static const prometheus::Histogram::BucketBoundaries buckets = {
      .00002, .00005, .0001, .0002, .0005, .001, .002, .004, .008,
      .016,   .032,   .064,  .128,  .256,  .512, 1,    2,    4};
  return buckets;
}

// For the number of tokens of a text.
inline const prometheus::Histogram::BucketBoundaries& LengthBuckets() {
  static const prometheus::Histogram::BucketBoundaries buckets = {
      1,    2,    5,    10,    20,    50,    100,    200,    500,
      1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000};
  return buckets;
}

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WATCH_BUCKETS_H_
