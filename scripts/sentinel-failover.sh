#!/usr/bin/env bash
# Replaces a healthy master, for example before maintenance of its machine. No acknowledged change is lost.
#
#   scripts/sentinel-failover.sh SENTINEL_HOST:PORT MASTER
#
# The command SENTINEL FAILOVER promotes a replica about a second before the old master becomes a replica. Changes that
# the old master acknowledges during that second are lost. So this script pauses changes on the old master during the
# failover.
#
#   REDISCLI_AUTH, REDIS_USER   password and user of the nodes. Permissions: info, client, replicaof, config|rewrite
#   REDIS_SENTINEL_PASSWORD     password of the Sentinels
#   REDIS_CLI                   redis-cli with its options, such as "redis-cli --tls --cacert ca.pem"
set -euo pipefail

if [ $# -ne 2 ]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2
  exit 2
fi
sentinel_port=${1##*:}
sentinel_host=${1%:*}
# Remove the brackets of an IPv6 address.
sentinel_host=${sentinel_host#[}
sentinel_host=${sentinel_host%]}
name=$2
node_password=${REDISCLI_AUTH-}
read -ra client <<<"${REDIS_CLI-redis-cli}"
unset REDISCLI_AUTH

# The length of one pause.
pause_ms=2500
# The time limit for the replicas to receive all data.
step_seconds=5
# The time limit of the whole failover.
seconds=20

# The arguments are PASSWORD HOST PORT WORD...
ask() {
  local password=$1 host=$2 port=$3
  shift 3
  if [ -n "$password" ]; then
    REDISCLI_AUTH=$password "${client[@]}" -e --no-auth-warning -h "$host" -p "$port" "$@"
  else
    "${client[@]}" -e -h "$host" -p "$port" "$@"
  fi
}
ask_sentinel() { ask "${REDIS_SENTINEL_PASSWORD-}" "$sentinel_host" "$sentinel_port" "$@"; }
ask_node() { ask "$node_password" "$1" "$2" ${REDIS_USER:+--user "$REDIS_USER"} "${@:3}"; }
ask_old() { ask_node "$old_host" "$old_port" "$@"; }
master() { ask_sentinel SENTINEL GET-MASTER-ADDR-BY-NAME "$name" | paste -sd' '; }
# Returns whether all online replicas have all data of the old master.
in_step() {
  local replication offset host port received
  replication=$(ask_old INFO replication | tr -d '\r')
  offset=$(sed -n 's/^master_repl_offset://p' <<<"$replication")
  while read -r host port; do
    received=$(ask_node "$host" "$port" INFO replication | sed -n 's/^slave_repl_offset:\([0-9]*\).*/\1/p')
    [ "${received:-0}" -ge "$offset" ] || return 1
  done < <(sed -n 's/^slave[0-9]*:ip=\([^,]*\),port=\([0-9]*\),state=online.*/\1 \2/p' <<<"$replication")
}
say() { echo "$(date -u +%H:%M:%S) $*"; }
fail() {
  say "$*" >&2
  exit 1
}

old=$(master) || fail "the Sentinel $1 does not answer"
read -r old_host old_port <<<"$old" || true
[ -n "${old_port-}" ] || fail "the Sentinel $1 has no master with the name $name"
replication=$(ask_old INFO replication) || fail "the master $old_host:$old_port does not answer; Sentinel replaces this master automatically"
grep -q '^role:master' <<<"$replication" || fail "$old_host:$old_port is not a master; another failover is in flight"
grep -q 'state=online' <<<"$replication" || fail "the master $old_host:$old_port has no online replica"

say "pausing changes on $old_host:$old_port"
ask_old CLIENT PAUSE $pause_ms WRITE >/dev/null || fail "$old_host:$old_port refuses CLIENT PAUSE"
# Wait until all replicas have all data, because Sentinel may promote any of them. Repeat the pause while waiting,
# so that the pause does not end.
until in_step; do
  if [ $SECONDS -ge $step_seconds ]; then
    ask_old CLIENT UNPAUSE >/dev/null || true
    fail "a replica of $old_host:$old_port is behind; try again when the replica has all data"
  fi
  sleep 0.05
  ask_old CLIENT PAUSE $pause_ms WRITE >/dev/null
done
if ! answer=$(ask_sentinel SENTINEL FAILOVER "$name" 2>&1); then
  ask_old CLIENT UNPAUSE >/dev/null || true
  fail "the Sentinel refuses a failover: $answer"
fi

new=$old
while [ "$new" = "$old" ]; do
  [ $SECONDS -lt $seconds ] || fail "Sentinel chose no new master within $seconds s; the pause ends automatically, and $old_host:$old_port stays the master"
  sleep 0.1
  # Repeat the pause until Sentinel has chosen the new master. If the pause ended before the choice, the old master
  # could acknowledge changes that the failover loses.
  ask_old CLIENT PAUSE $pause_ms WRITE >/dev/null 2>&1 || true
  new=$(master 2>/dev/null) || new=$old
  new=${new:-$old}
done
say "+switch-master: the new master is ${new/ /:}"

# Make the old master a replica before the pause ends. Sentinel also sends REPLICAOF to the old master, but maybe only
# after the pause. In that case, the old master would first run the paused changes, and then lose them.
read -r new_host new_port <<<"$new"
ask_old REPLICAOF "$new_host" "$new_port" >/dev/null ||
  fail "$old_host:$old_port cannot become a replica: stop this node, because it may accept changes that are lost later"
ask_old CONFIG REWRITE >/dev/null 2>&1 || true
ask_old CLIENT UNPAUSE >/dev/null
say "done: $old_host:$old_port is now a replica of $new_host:$new_port"
