#!/bin/sh
# Line and branch coverage by package: 100 % of the pure packages, nearly all of the others. Needs combined data.
set -eu

at_least() {
  echo "-- $2: at least $1 %"
  coverage report --skip-covered --precision 2 --fail-under "$1" --include "src/hotseat/$2/*" -m
}

at_least 100 scheduling
at_least 100 catalog
at_least 100 simulation
at_least 90.01 relay
at_least 90.01 model_servers
at_least 90.01 estimates
at_least 90.01 memory
at_least 95 fleet
at_least 98 ollama
at_least 100 tracing
