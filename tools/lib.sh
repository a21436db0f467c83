# lib.sh -- what ./demo and ./check share: set-up and builds. Source it from the top folder.
#
# Set-up asks nothing: packages that are missing are installed (as root, or with sudo), and
# where all are there, root is not needed and nothing is touched. Which are there is asked of
# dpkg, so a machine without Debian's packages but with the tools can skip all of it: TY_NO_SETUP=1.

# What each command needs. `demo` builds and runs; `check` also tests, formats and fuzzes.
PACKAGES_BUILD=(gcc libc6-dev meson ninja-build pkg-config libmicrohttpd-dev libjansson-dev
                libyaml-dev libsqlite3-dev zlib1g-dev libzmq3-dev libssl3 libjpeg62-turbo-dev libpng-dev)
PACKAGES_CHECK=("${PACKAGES_BUILD[@]}" libcmocka-dev clang-14 clang-tidy-14 clang-format-14
                libclang-rt-14-dev python3 python3-venv iproute2 util-linux ca-certificates
                podman runc busybox-static openmpi-bin slurmctld slurmd slurm-client libpmix-dev)

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# need_packages NAME...: install those that are missing.
need_packages() {
    [ -z "${TY_NO_SETUP:-}" ] || return 0
    local name missing=() root=()
    command -v dpkg-query >/dev/null || die "this is not Debian: install what these are there (${*}), then set TY_NO_SETUP=1"
    for name; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "missing packages, and neither root nor sudo to install them. As root: apt-get install ${missing[*]}"
        root=(sudo)
    fi
    say "installing ${#missing[@]} packages: ${missing[*]}"
    local log; log=$(mktemp)
    if ! { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
           "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
         } >"$log" 2>&1 </dev/null; then
        tail -n 20 "$log" >&2; rm -f "$log"
        die "apt-get could not install: ${missing[*]}"
    fi
    rm -f "$log"
}

# build_in DIR TARGET... -- SETUP-OPTION...: configure once, then build quietly; the log is shown if it fails.
# The options are kept beside the build, so that a change of them configures anew; so does cmocka's arrival (./check
# after ./demo), without which there are no test programs, and a new module (meson keeps an option's first value).
build_in() {
    local dir=$1 targets=() log options; shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do targets+=("$1"); shift; done
    [ $# -eq 0 ] || shift
    mkdir -p "$dir"; log=$dir/build.log
    options="CC=${CC:-} cmocka=$(pkg-config --modversion cmocka 2>/dev/null) modules=$(cksum <meson_options.txt) $*"
    if [ ! -e "$dir/build.ninja" ] || [ "$(cat "$dir/setup.options" 2>/dev/null)" != "$options" ]; then
        rm -rf "$dir/meson-private" "$dir/meson-info" "$dir/build.ninja"
        meson setup "$dir" "$@" >"$log" 2>&1 || { tail -n 40 "$log" >&2; return 1; }
        printf '%s' "$options" >"$dir/setup.options"
    fi
    ninja -C "$dir" "${targets[@]}" >"$log" 2>&1 || { grep -vE '^(\[[0-9]+/|ninja: Entering)' "$log" | tail -n 60 >&2; return 1; }
}

# The release build, asserts on: build/trainyard, build/test_base, ...
build_release() {
    build_in build "$@" --
}
# The sanitized build: unit tests and fuzz targets, of the same objects. clang, because libFuzzer is its own; every
# object is instrumented, so that coverage leads it. Warnings are errors in gcc's build and in clang-tidy, not here
# a third time. NULL + 0, which clang alone counts as an overflow, is how an empty ty_str is walked (and defined
# since C2y); real overruns are ASan's to find.
build_asan() {
    CC=clang-14 build_in build/asan "$@" -- --buildtype=debugoptimized -Dwerror=false -Db_sanitize=address,undefined \
        -Db_lundef=false "-Dc_args=-fsanitize=fuzzer-no-link -fno-sanitize=pointer-overflow -Wno-unknown-warning-option"
}

# need_venv DIR REQUIREMENTS: a Python environment of its own, made again when the list changes.
need_venv() {
    local dir=$1 list=$2 log lock; log=$dir.log
    cmp -s "$list" "$dir/made-from" && return 0
    mkdir -p "${dir%/*}"
    exec {lock}>"$dir.lock" && flock "$lock" # tests that run side by side may want the same one
    make_venv "$dir" "$list" "$log" && exec {lock}>&-
}
make_venv() {
    local dir=$1 list=$2 log=$3
    cmp -s "$list" "$dir/made-from" && return 0
    # Debian's own Python, where it is: python3-venv belongs to that one.
    local python=/usr/bin/python3; [ -x "$python" ] || python=python3
    rm -rf "$dir"
    # What is imported is compiled then: of TensorFlow's ten thousand files that is a tenth.
    { "$python" -m venv "$dir" && "$dir/bin/pip" install --disable-pip-version-check --no-compile -q -r "$list"; } >"$log" 2>&1 ||
        { tail -n 20 "$log" >&2; rm -rf "$dir"; return 1; }
    cp "$list" "$dir/made-from"
}
