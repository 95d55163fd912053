# Sourced by scripts of this folder: compilers for other machines, Debian's Python for another processor, and its emulator.
# Each function says on standard output why something can't be had. $work is a temporary folder of the script.

# Put a compiler and C libraries of all machines, from PyPI (zig), into $work/tools, with further PACKAGES. In the place of
# cargo, $work/cargo compiles with them, and calls the real one.
make_compiler() {
    python3 -m venv "$work/tools"
    "$work/tools/bin/python" -m pip install -q ziglang==0.17.1 cargo-zigbuild==0.24.1 "$@" >"$work/tools.log" 2>&1 ||
        { echo "pip can't fetch zig: $(tail -n 1 "$work/tools.log")"; return 1; }
    cat >"$work/cargo" <<END
#!/bin/sh
CARGO='$(command -v cargo)' PATH='$work/tools/bin':"\$PATH" exec '$work/tools/bin/cargo-zigbuild' "\$@"
END
    chmod +x "$work/cargo"
}

# Ask rustup for the standard library of a target.
get_library() { (cd rust && timeout 300 rustup target add "$1" >/dev/null 2>&1) || { echo "rustup has no library for $1"; return 1; }; }

# Put Debian's emulators into $work/emulators. Those of the stable release of 2023 lack the system call openat2.
get_emulators() {
    local place=$work/apt options
    [[ -d $work/emulators ]] && return
    mkdir -p "$place/lists/partial"
    echo 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main' >"$place/sources"
    options=(-qq -o "Dir::State::lists=$place/lists" -o "Dir::Etc::sourcelist=$place/sources" -o Dir::Etc::sourceparts=-)
    (cd "$place" && timeout 120 apt-get "${options[@]}" update && timeout 300 apt-get "${options[@]}" download qemu-user &&
        dpkg -x qemu-user*.deb .) >"$place/log" 2>&1 || { echo "apt-get can't fetch qemu-user: $(tail -n 1 "$place/log")"; return 1; }
    mv "$place/usr/bin" "$work/emulators"
}

# make_machine ARCH FOLDER: put Debian's Python, NumPy and numcodecs for ARCH into FOLDER.
make_machine() {
    local arch=$1 root=$2 log=$2.log package
    export DEBIAN_FRONTEND=noninteractive
    get_emulators || return 1
    command -v debootstrap >/dev/null ||
        { timeout 120 apt-get update -qq && timeout 300 apt-get install -y -qq --no-install-recommends debootstrap; } >"$log" 2>&1 ||
        { echo "apt-get can't install debootstrap: $(tail -n 1 "$log")"; return 1; }
    timeout 300 debootstrap --foreign --arch="$arch" --variant=minbase \
        --include=python3,python3-numpy,python3-numcodecs bookworm "$root" >"$log" 2>&1 ||
        { echo "debootstrap can't fetch Python for $arch: $(tail -n 1 "$log")"; return 1; }
    for package in "$root"/var/cache/apt/archives/*.deb; do dpkg -x "$package" "$root"; done
}

# on_machine PROCESSOR FOLDER PATH ARGUMENT...: run its Python, which finds packages in PATH, too.
on_machine() {
    local processor=$1 root=$2 path=$3
    shift 3
    local libraries=$root/usr/lib/$processor-linux-gnu
    "$work/emulators/qemu-$processor" -L "$root" -E PYTHONHOME="$root/usr" \
        -E LD_LIBRARY_PATH="$libraries:$libraries/blas:$libraries/lapack" \
        -E PYTHONPATH="$path:$root/usr/lib/python3/dist-packages" "$root/usr/bin/python3.11" "$@"
}
