#!/bin/sh
# Creates the folder `secrets` next to this script, with the secrets of compose.yaml. If the folder exists, this script
# changes nothing. Keep the secrets: if token-keys is lost, the service cannot decrypt the stored tokens. The files have
# read permission for all users, because the containers do not run as the owner of the files. Other users of the machine
# still cannot read the files, because only the owner can open the folder.
set -eu
cd "$(dirname "$0")"
if [ -e secrets ]; then
  echo "deploy/compose/secrets already exists. Nothing was changed." >&2
  exit 1
fi
new=$(mktemp -d ./new-secrets.XXXXXX)
trap 'rm -rf "$new"' EXIT
password=$(openssl rand -hex 24)
echo "$password" > "$new/redis-password"
echo "k1:$(openssl rand -base64 32)" > "$new/token-keys"
openssl rand -hex 24 > "$new/admin-token"
# docs/operations/redis.md explains the permissions of the Redis user. The file `redis-users` contains a digest of the
# password, not the password.
digest=$(printf %s "$password" | openssl dgst -sha256 -r | cut -d ' ' -f 1)
cat > "$new/redis-users" <<END
user default off
user user-groups on #$digest ~ug:* &ug:revoked -@all +eval +evalsha +time +get +set +del +exists +incrby +persist +pexpire +pexpireat +pttl +unlink +hget +hmget +hgetall +hset +hdel +hexists +hlen +zadd +zcard +zrem +zscore +zrangebylex +xadd +xlen +xrange +xrevrange +xtrim +scan +wait +asking +cluster|slots +select +subscribe +publish +info +config|get
END
chmod 444 "$new"/*
mv "$new" secrets
trap - EXIT
echo "Created deploy/compose/secrets. The ADMIN_TOKEN is in the file admin-token."
