#!/usr/bin/env bash
# The README's two commands, on what is committed, in a Debian 12 that has git, make and a C compiler and nothing
# else, with an empty environment.  It is made in build/bare, which the next run makes anew, from the packages of
# this machine's apt sources where they are those of Debian 12; the network is reached as from here.  As root.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/environment.sh
root=$PWD/build/bare
[ "$(id -u)" = 0 ] || { echo "test-bare: only root can make a root of its own: sudo make test-bare" >&2; exit 1; }

sources=()
if grep -qs 'VERSION_CODENAME=bookworm' /etc/os-release; then
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
        [ -s "$file" ] && sources+=("$file")
    done
fi
mkdir -p build
rm -rf --one-file-system "$root"
apt-config dump --format '%F "%v";%n' Acquire::http Acquire::https Acquire::Check-Valid-Until Acquire::Check-Date \
    >build/bare-apt.conf
mmdebstrap --quiet --variant=minbase --include=git,make,gcc,libc6-dev,ca-certificates --aptopt=build/bare-apt.conf \
    bookworm "$root" "${sources[@]}"

# What this machine reaches the network with: variables, the certificates and folders they name, settings of pip.
variables=() files=(/etc/resolv.conf /etc/hosts /etc/pip.conf ~/.pip/pip.conf ~/.config/pip/pip.conf
    /etc/ssl/certs/ca-certificates.crt)
for name in $(compgen -e); do
    reaches_network "$name" || continue
    variables+=("$name=${!name}")
    read -ra words <<<"${!name}"
    files+=("${words[@]}")
done
for file in "${files[@]}"; do
    [[ $file != /* || ! -e $file ]] || cp -rL --remove-destination --parents "$file" "$root"
done

git bundle create --quiet "$root/source" HEAD
run=(env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin "${variables[@]}" sh -c
    'git -c advice.detachedHead=false clone --quiet /source /root/project && cd /root/project && make demo && make test')
# In name spaces of their own, so that nothing stays mounted and no process is left.
exec unshare --mount --pid --fork --kill-child sh -c '
    cd "$0" && mount -t proc proc proc && mount --rbind /dev dev && exec chroot . "$@"' "$root" "${run[@]}"
