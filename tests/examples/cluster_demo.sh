#!/usr/bin/env bash
# tools/cluster-demo at small size: a run in which a worker, the chief and a parameter server are
# killed ends with the bits of the one that nobody disturbs, also with encrypted connections, and so
# does one whose workers come and go. And what it says of wrong options.
#   cluster_demo.sh SOURCE BUILD
set -uo pipefail
export TROUPE_BUILD="$2"
demo() { "$1/tools/cluster-demo" --ps 2 --workers 2 --steps 40 --net small --batch 20 --save_steps 10 "${@:2}" 2>&1; }
fail() {
  echo "$1"
  exit 1
}
undisturbed=$(demo "$1") || fail "undisturbed: $undisturbed"
killed=$(demo "$1" --kill worker:1@8 --kill chief@16 --kill ps:1@24) || fail "with kills: $killed"
echo "$undisturbed"
echo "$killed"
# Workers that come and go change no bit; with two parts it is the run of two workers.
elastic=$("$1/tools/cluster-demo" --ps 2 --workers 3 --parts 2 --steps 200 --net small --batch 20 --save_steps 50 \
  --join worker:2@10 --leave worker:1@100 2>&1) || fail "elastic: $elastic"
echo "$elastic"
hash() { sed -n 's/^all ended well: .*hash \([0-9a-f]*\),.*/\1/p' <<<"$1"; }
[ -n "$(hash "$undisturbed")" ] || fail "there is no hash"
long=$(demo "$1" --steps 200 --save_steps 50) || fail "200 steps: $long"
[ "$(hash "$long")" = "$(hash "$elastic")" ] || fail "workers that come and go change bits: $long"
grep -q '^worker:2 joins at step' <<<"$elastic" || fail "nobody joined"
grep -q '^worker:1: ended, 0 restarts' <<<"$elastic" || fail "worker:1 did not leave in order"
grep -q '^all ended well: .*accuracy.*, 0 restarts$' <<<"$elastic" || fail "restarts without a kill"
[ "$(hash "$undisturbed")" = "$(hash "$killed")" ] || fail "the hashes differ"
grep -q '^all ended well: .*accuracy.*, 0 restarts$' <<<"$undisturbed" || fail "restarts without a kill"
grep -q '^all ended well: .*accuracy.*, 3 restarts$' <<<"$killed" || fail "other restarts than the kills"
# Encrypted, with kills. And the server of a run that lasts is asked without a certificate: it refuses.
dir=$(mktemp -d) || fail "no folder"
trap 'rm -rf "$dir"' EXIT
if "$2/bin/troupe" cluster certificate "$dir/certificate" 2>"$dir/no_tls"; then
  encrypted=$(demo "$1" --tls --dir "$dir/run" --kill worker:1@8 --kill ps:1@24) || fail "encrypted: $encrypted"
  echo "$encrypted"
  [ "$(hash "$undisturbed")" = "$(hash "$encrypted")" ] || fail "the hash of the encrypted run differs"
  grep -q '^all ended well: .*accuracy.*, 2 restarts$' <<<"$encrypted" || fail "other restarts than the kills, encrypted"
  for file in ca.crt node.crt node.key; do [ -e "$dir/run/tls/$file" ] || fail "there is no tls/$file"; done
  # In a process group of its own, which is ended as a whole.
  setsid "$1/tools/cluster-demo" --workers 1 --steps 1000000 --net small --save_steps 1000000 --tls --dir "$dir/long" >"$dir/long.out" 2>&1 &
  long=$! answer="" refused=""
  for _ in $(seq 150); do
    address=$(sed -n 's/.*value: *"\([^"]*\)".*/\1/p' "$dir/long/cluster.pbtxt" 2>/dev/null | head -n 1)
    if [ -z "$address" ]; then sleep 0.2; continue; fi
    if answer=$("$2/bin/troupe" status "$address" 2>&1); then break; fi
    if grep -q 'its connections are encrypted (TLS), and this process has no certificate' <<<"$answer"; then refused=1 && break; fi
    sleep 0.2
  done
  kill -TERM -- -$long
  wait $long
  for _ in $(seq 150); do kill -0 -- -$long 2>/dev/null && sleep 0.2; done
  [ -n "$refused" ] || fail "a process without a certificate was not refused, but told: ${answer:-nothing}; $(cat "$dir/long.out")"
else
  grep -q UNIMPLEMENTED "$dir/no_tls" || fail "$(cat "$dir/no_tls")"
fi
# Without parameter servers; the chief and the worker at once, too.
reduce() { "$1/tools/cluster-demo" --mode allreduce --workers 3 --steps 40 --net small --batch 20 --save_steps 10 "${@:2}" 2>&1; }
undisturbed=$(reduce "$1") || fail "all-reduce, undisturbed: $undisturbed"
killed=$(reduce "$1" --kill worker:1@8 --kill chief@16 --kill worker:2@24 --kill chief@24) || fail "all-reduce, with kills: $killed"
echo "$undisturbed"
echo "$killed"
[ -n "$(hash "$undisturbed")" ] || fail "there is no hash of the all-reduce"
[ "$(hash "$undisturbed")" = "$(hash "$killed")" ] || fail "the hashes of the all-reduce differ"
grep -q '^all ended well: .*accuracy.*, 4 restarts$' <<<"$killed" || fail "other restarts of the all-reduce than the kills"
for wrong in "--mode allreduce --ps 1" "--mode sync --ps 0" "--mode async --parts 2" "--mode no" "--steps 0" "--what 1" "--ps"; do
  # shellcheck disable=SC2086
  "$1/tools/cluster-demo" $wrong >/dev/null 2>&1
  [ $? = 2 ] || fail "'$wrong' was not refused"
done
late=$(demo "$1" --kill worker:1@999) && fail "a kill that never came was not noticed"
grep -q 'all ended before these steps were reported: worker:1@999' <<<"$late" || fail "$late"
