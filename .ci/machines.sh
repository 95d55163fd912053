# Sourced by scripts of this folder: Debian's Python for another processor, in a folder, and its emulator.

# make_machine ARCH FOLDER PACKAGE...: put Debian's packages for ARCH into FOLDER; says on standard output why it can't.
make_machine() {
    local arch=$1 root=$2 log=$2.log
    shift 2
    export DEBIAN_FRONTEND=noninteractive
    if ! command -v debootstrap >/dev/null || ! command -v qemu-s390x-static >/dev/null; then
        { timeout 120 apt-get update -qq &&
            timeout 300 apt-get install -y -qq --no-install-recommends qemu-user-static debootstrap; } >"$log" 2>&1 ||
            { echo "apt-get can't install qemu-user-static and debootstrap: $(tail -n 1 "$log")"; return 1; }
    fi
    local packages=python3 package
    for package; do packages+=,$package; done
    timeout 300 debootstrap --foreign --arch="$arch" --variant=minbase --include="$packages" bookworm "$root" >"$log" 2>&1 ||
        { echo "debootstrap can't fetch Python for $arch: $(tail -n 1 "$log")"; return 1; }
    for package in "$root"/var/cache/apt/archives/*.deb; do dpkg -x "$package" "$root"; done
}

# on_machine PROCESSOR FOLDER PATH ARGUMENT...: run its Python, which finds packages in PATH, too.
on_machine() {
    local processor=$1 root=$2 path=$3
    shift 3
    local libraries=$root/usr/lib/$processor-linux-gnu
    "qemu-$processor-static" -L "$root" -E PYTHONHOME="$root/usr" \
        -E LD_LIBRARY_PATH="$libraries:$libraries/blas:$libraries/lapack" \
        -E PYTHONPATH="$path:$root/usr/lib/python3/dist-packages" "$root/usr/bin/python3.11" "$@"
}
