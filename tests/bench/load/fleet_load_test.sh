#!/usr/bin/env bash
# fleet_load for a few seconds, with few workers: every text is right. What it
# measures beside other tests says little, so that the bounds are wide.
set -euo pipefail

tests/bench/load/fleet_load --workers 8 --streams 200 --step-ms 50 \
  --warm-up 1 --seconds 5 --max-cpu-ms 50 --max-growth-percent 100
