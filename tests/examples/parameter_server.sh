#!/usr/bin/env bash
# A parameter server and two workers of examples/parameter_server.cc, as processes of this machine:
# each worker finds the line.
#   parameter_server.sh TROUPE PROGRAM
set -uo pipefail
port=$((10000 + $$ % 20000))
cluster="ps=localhost:$port;worker=localhost:$((port + 1)),localhost:$((port + 2))"
"$1" serve --cluster "$cluster" --job ps --task 0 --heartbeat 1000 --threads 1 &
ps=$!
trap 'kill $ps 2>/dev/null' EXIT
"$2" "$cluster" 1 >"$3.1" &
other=$!
"$2" "$cluster" 0 >"$3.0"
first=$?
wait $other
second=$?
cat "$3.0" "$3.1"
[ $first = 0 ] && [ $second = 0 ] && [ "$(grep -c '^w = 3.000, b = -1.000$' "$3.0" "$3.1" | grep -c ':1$')" = 2 ]
