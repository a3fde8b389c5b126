# shellcheck shell=sh disable=SC2154,SC3013 # who sources it sets root and wanted; every sh has -nt
# Sourced by the scripts beside it: makes a fresh machine ready, in silence when it is.
#
# Before: $root is the project's folder, $wanted names what is needed: "run" for tracer itself, "test" for its tests too,
# "vm" for those that run on other kernels, "bench" for what tracer is measured beside.
# All talk goes to stderr; stdout belongs to the command that follows. It ends the script with status 1 where something
# is missing that it cannot install, and says which command would.

say() { printf 'set-up: %s\n' "$*" >&2; }
give_up() { say "$*"; exit 1; }

venv=$root/.venv
stamp=$venv/.tracer-$wanted
before=

# --- the short way: one file to read, nothing to start -----------------------------------------------------------------

# The stamp holds what the environment was made from: it is stale when the tree was moved, the distribution's Python was
# replaced, or pyproject.toml is newer. Its third line, which may be missing, starts Python with SIGINT blocked.
is_good() { # $1: a stamp
    [ -f "$1" ] && [ -x "$venv/bin/python" ] && [ ! "$root/pyproject.toml" -nt "$1" ] || return 1
    { IFS= read -r made_in && IFS= read -r made_of && { IFS= read -r before || before=; }; } < "$1" || return 1
    [ "$made_in" = "$root" ] && [ -x "$made_of" ]
}
is_ready() { is_good "$stamp"; }

# --- what is missing ----------------------------------------------------------------------------------------------------

# The interpreter for .venv: the distribution's, because its BCC binding belongs to it, else the newest that will do.
find_python() {
    for python in /usr/bin/python3 /usr/bin/python3.14 /usr/bin/python3.13 /usr/bin/python3.12 /usr/bin/python3.11 \
        /usr/bin/python3.10 python3; do
        python=$(command -v "$python" 2>/dev/null) || continue
        if "$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            return 0
        fi
    done
    python=
    return 1
}

has_venv() { find_python && "$python" -I -c 'import ensurepip, venv' 2>/dev/null; }
# The real one: PyPI has another project of that name.
has_bcc() {
    for each in /usr/bin/python3 $python; do
        "$each" -I -c 'import bcc; bcc.BPF' >/dev/null 2>&1 && return 0
    done
    return 1
}
has_c() { command -v cc >/dev/null 2>&1; }
has_cxx() { command -v c++ >/dev/null 2>&1; }
has_sdt() { [ -f /usr/include/sys/sdt.h ] || [ -n "$(find /usr/include -path '*/sys/sdt.h' 2>/dev/null | head -n 1)" ]; }
has_readelf() { command -v readelf >/dev/null 2>&1; }
# It compiles in a fraction of the time of any other, and every other will do.
has_tcc() { command -v tcc >/dev/null 2>&1 || [ -z "$(command -v apt-get)" ]; }
has_gdb() { command -v gdb >/dev/null 2>&1; }
has_valgrind() { command -v valgrind >/dev/null 2>&1; }
has_dwz() { command -v dwz >/dev/null 2>&1; }
has_debuginfod() { command -v debuginfod >/dev/null 2>&1 || [ -z "$(command -v apt-get)" ]; }
has_cpio() { command -v cpio >/dev/null 2>&1; }
has_postgres() {
    for each in /usr/lib/postgresql/*/bin/pgbench /usr/pgsql-*/bin/pgbench /usr/bin/pgbench; do
        [ -x "$each" ] && return 0
    done
    return 1
}
# What a library that the server loads is compiled with.
has_pgheaders() {
    for each in /usr/include/postgresql/*/server/postgres.h /usr/include/pgsql/server/postgres.h; do
        [ -f "$each" ] && return 0
    done
    return 1
}
# The debug symbols of the distribution's Python, which come with an interpreter of their own.
has_pydebug() { [ -n "$(find /usr/bin -name 'python3.*d' 2>/dev/null)" ] || [ -z "$(command -v apt-get)" ]; }
has_clang() { command -v clang >/dev/null 2>&1; }
has_lld() { command -v ld.lld >/dev/null 2>&1; }
has_go() { command -v go >/dev/null 2>&1; }
has_rust() { command -v rustc >/dev/null 2>&1; }
has_php() { command -v php >/dev/null 2>&1; }
# A C library that is not glibc, beside it. Who has no apt-get may have it as the only one, or no package of it.
has_musl() { command -v musl-gcc >/dev/null 2>&1 || [ -z "$(command -v apt-get)" ]; }
has_node() { command -v node >/dev/null 2>&1; }
has_java() { command -v javac >/dev/null 2>&1; }
# Without a screen: the tests look at pages in it.
has_browser() {
    for each in chromium-headless-shell chromium chromium-browser google-chrome; do
        command -v "$each" >/dev/null 2>&1 && return 0
    done
    return 1
}
has_bpftrace() { command -v bpftrace >/dev/null 2>&1; }
# Debian and Ubuntu give BCC's and perf-tools' programs names of their own.
has_bcctools() { command -v argdist-bpfcc >/dev/null 2>&1 || [ -x /usr/share/bcc/tools/argdist ]; }
has_ltrace() { command -v ltrace >/dev/null 2>&1 || [ -z "$(command -v apt-get)" ]; }
has_strace() { command -v strace >/dev/null 2>&1; }
has_perftools() { command -v uprobe-perf >/dev/null 2>&1 || [ -z "$(command -v apt-get)" ]; } # nobody else ships them
has_qemu() { command -v qemu-system-x86_64 >/dev/null 2>&1; }
# A static one: it starts where nothing else is.
has_busybox() { command -v busybox >/dev/null 2>&1 && ! readelf -l "$(command -v busybox)" 2>/dev/null | grep -q INTERP; }
has_keyring() { [ -f /usr/share/keyrings/debian-archive-keyring.gpg ] && command -v dpkg >/dev/null 2>&1; }
# What compiles a kernel.
has_kbuild() {
    for each in make flex bison bc xz; do
        command -v "$each" >/dev/null 2>&1 || return 1
    done
    [ -f /usr/include/libelf.h ]
}

# Sets $missing to the things that are not there, out of those that $wanted needs.
find_missing() {
    missing=
    needed="venv bcc"
    case $wanted in
        test) needed="$needed c cxx tcc sdt readelf cpio dwz debuginfod gdb ltrace strace perftools valgrind clang lld postgres pgheaders pydebug java go rust node php musl browser" ;;
        bench) needed="$needed c sdt java bpftrace bcctools perftools" ;;
        vm) needed="$needed c cxx sdt readelf qemu busybox keyring kbuild" ;;
    esac
    for thing in $needed; do
        "has_$thing" || missing="$missing $thing"
    done
}

# Debian packs it without a screen too, which is a third of the whole; its older releases do not.
browser_package() {
    if [ -n "$(apt-cache search --names-only '^chromium-headless-shell$' 2>/dev/null)" ]; then
        printf chromium-headless-shell
    else
        printf chromium
    fi
}

# --- installing it -------------------------------------------------------------------------------------------------------

# $1: a package manager; prints the names of the packages for $missing there, a blank before each.
packages_for() {
    list=
    for thing in $missing; do
        case $1:$thing in
            apt:venv) list="$list python3 python3-venv" ;;
            apt:bcc) list="$list python3-bpfcc" ;;
            apt:c) list="$list gcc libc6-dev" ;;
            apt:cxx) list="$list g++" ;;
            apt:sdt) list="$list systemtap-sdt-dev" ;;
            apt:readelf) list="$list binutils" ;;
            *:cpio) list="$list cpio" ;;
            *:dwz) list="$list dwz" ;;
            apt:debuginfod) list="$list debuginfod" ;;
            *:gdb) list="$list gdb" ;;
            apt:ltrace) list="$list ltrace" ;;
            *:strace) list="$list strace" ;;
            *:clang) list="$list clang" ;;
            *:lld) list="$list lld" ;;
            apt:tcc) list="$list tcc" ;;
            apt:postgres) list="$list postgresql" ;;
            apt:pgheaders) list="$list postgresql-server-dev-all" ;;
            apt:pydebug) list="$list python3-dbg" ;;
            apt:go) list="$list golang-go" ;;
            apt:rust) list="$list rustc" ;;
            apt:node) list="$list nodejs" ;;
            apt:php | dnf:php) list="$list php-cli" ;;
            zypper:php) list="$list php8-cli" ;;
            apk:php) list="$list php83" ;;
            apt:musl) list="$list musl-tools" ;;
            apt:java) list="$list default-jdk-headless" ;;
            apt:browser) list="$list $(browser_package)" ;;
            dnf:browser) list="$list chromium-headless" ;;
            zypper:browser | apk:browser) list="$list chromium" ;;
            *:bpftrace) list="$list bpftrace" ;;
            apt:bcctools) list="$list bpfcc-tools" ;;
            apt:perftools) list="$list perf-tools-unstable" ;;
            dnf:bcctools | zypper:bcctools | apk:bcctools) list="$list bcc-tools" ;;
            apt:qemu) list="$list qemu-system-x86" ;;
            apt:busybox) list="$list busybox-static" ;;
            apt:keyring) list="$list debian-archive-keyring" ;;
            apt:kbuild) list="$list make flex bison bc xz-utils libelf-dev" ;;
            dnf:venv | zypper:venv) list="$list python3 python3-pip" ;;
            dnf:bcc | zypper:bcc) list="$list python3-bcc" ;;
            dnf:c | zypper:c) list="$list gcc" ;;
            dnf:cxx | zypper:cxx) list="$list gcc-c++" ;;
            dnf:sdt) list="$list systemtap-sdt-devel" ;;
            zypper:sdt) list="$list systemtap-sdt-devel" ;;
            dnf:readelf | zypper:readelf) list="$list binutils" ;;
            dnf:postgres) list="$list postgresql-server postgresql-contrib" ;;
            zypper:postgres) list="$list postgresql-server postgresql-contrib" ;;
            dnf:pgheaders) list="$list postgresql-server-devel" ;;
            zypper:pgheaders) list="$list postgresql-server-devel" ;;
            dnf:go) list="$list golang" ;;
            zypper:go | apk:go) list="$list go" ;;
            dnf:rust | zypper:rust | apk:rust) list="$list rust" ;;
            dnf:node | apk:node) list="$list nodejs" ;;
            zypper:node) list="$list nodejs-default" ;;
            dnf:java) list="$list java-latest-openjdk-devel" ;;
            zypper:java) list="$list java-17-openjdk-devel" ;;
            dnf:qemu) list="$list qemu-system-x86-core" ;;
            zypper:qemu) list="$list qemu-x86" ;;
            dnf:busybox) list="$list busybox" ;;
            zypper:busybox) list="$list busybox-static" ;;
            dnf:keyring) list="$list apt dpkg debian-keyring" ;;
            dnf:kbuild | zypper:kbuild) list="$list make flex bison bc xz elfutils-libelf-devel" ;;
            apk:venv) list="$list python3 py3-pip" ;;
            apk:bcc) list="$list bcc-tools py3-bcc" ;;
            apk:c) list="$list gcc musl-dev" ;;
            apk:cxx) list="$list g++" ;;
            apk:sdt) list="$list systemtap-dev" ;;
            apk:readelf) list="$list binutils" ;;
            apk:postgres) list="$list postgresql postgresql-contrib" ;;
            apk:pgheaders) list="$list postgresql-dev" ;;
            apk:java) list="$list openjdk17-jdk" ;;
        esac
    done
    printf '%s' "$list"
}

install_missing() {
    find_missing
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        for manager in dnf zypper apk; do
            command -v "$manager" >/dev/null 2>&1 || continue
            case $manager in apk) verb=add ;; *) verb=install ;; esac
            give_up "missing:$missing; install with: sudo $manager $verb$(packages_for "$manager")"
        done
        give_up "missing:$missing; this machine has no apt-get, dnf, zypper or apk to install it with"
    fi
    # A new image has no package lists, and old ones name files that are gone.
    if [ "$(id -u)" = 0 ] && [ -z "$(find /var/lib/apt/lists -name '*_Packages*' 2>/dev/null | head -n 1)" ]; then
        update_lists
    fi
    packages=$(packages_for apt)
    if [ "$(id -u)" != 0 ]; then
        give_up "missing:$missing; install with: sudo apt-get install$packages (or start this script with sudo once)"
    fi
    export DEBIAN_FRONTEND=noninteractive
    say "installing$packages"
    # shellcheck disable=SC2086 # the packages are separate words
    apt-get install -y -q --no-install-recommends $packages >&2 </dev/null 9<&- ||
        { update_lists && apt-get install -y -q --no-install-recommends $packages >&2 </dev/null 9<&-; } ||
        give_up "apt-get could not install$packages"
    find_missing
    [ -z "$missing" ] || give_up "still missing after apt-get:$missing"
}

update_lists() {
    say "fetching package lists"
    apt-get update -q >&2 </dev/null 9<&- || say "apt-get update failed; going on with the lists that are there"
}

# --- the environment -----------------------------------------------------------------------------------------------------

make_environment() {
    # A Python that the distribution replaced leaves an environment without its packages: it is made anew.
    if ! "$venv/bin/python" -I -c 'import pip, sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
        say "making $venv with $python"
        rm -rf "$venv"
        "$python" -m venv "$venv" >&2 9<&- || give_up "could not make $venv"
    fi
    # The tests on other kernels need the same environment as those on this one, which has what the benchmark needs too.
    if { [ "$wanted" = vm ] || [ "$wanted" = bench ]; } && is_good "$venv/.tracer-test"; then
        cp -p "$venv/.tracer-test" "$stamp"
        return
    fi
    say "installing tracer into $venv"
    package='.[test]'
    case $wanted in run) package=. ;; bench) package='.[bench]' ;; esac
    (cd "$root" && exec "$venv/bin/python" -I -m pip install -q --disable-pip-version-check -e "$package") \
        >&2 </dev/null 9<&- || give_up "pip could not install tracer"
    made_of=$(readlink -f "$venv/bin/python")
    if /usr/bin/env --block-signal=INT true 2>/dev/null; then before='/usr/bin/env --block-signal=INT'; fi
    for name in run "$wanted"; do
        printf '%s\n%s\n%s\n' "$root" "$made_of" "$before" > "$venv/.tracer-$name.$$"
        mv "$venv/.tracer-$name.$$" "$venv/.tracer-$name"
    done
}

set_up() {
    is_ready && return 0
    install_missing
    find_python || give_up "no Python 3.10 or newer"
    if [ ! -w "$root" ] || { [ -d "$venv" ] && [ ! -w "$venv" ]; }; then
        give_up "cannot write $venv; start this script with sudo once"
    fi
    make_environment
}

is_ready || {
    if command -v flock >/dev/null 2>&1; then
        # Two at once would install into one environment: the second waits, and finds it ready. Nothing that is started
        # here may keep the lock, a server that a package starts least of all; hence 9<&- at every command above.
        exec 9< "$root" && flock 9
        set_up
        exec 9<&-
    else
        set_up
    fi
}
