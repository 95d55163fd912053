//! The calls below those that programs usually make, and their numbers and structures.

use std::ffi::c_void;
use std::os::windows::io::BorrowedHandle;
use std::ptr::null_mut;

pub const READ_DATA: u32 = 0x1; // of a directory: its names
pub const WRITE_DATA: u32 = 0x2;
pub const TRAVERSE: u32 = 0x20;
pub const READ_ATTRIBUTES: u32 = 0x80;
pub const WRITE_ATTRIBUTES: u32 = 0x100;
pub const DELETE: u32 = 0x1_0000;
pub const SYNCHRONIZE: u32 = 0x10_0000;
pub const SHARED: u32 = 0x7; // for reading, writing and deleting

pub const OPEN: u32 = 1;
pub const CREATE: u32 = 2;
pub const OPEN_OR_CREATE: u32 = 3;

pub const A_DIRECTORY: u32 = 0x1;
pub const SYNCHRONOUS: u32 = 0x20;
pub const NO_DIRECTORY: u32 = 0x40;
pub const ITSELF: u32 = 0x20_0000; // a link, and not where it leads

pub const NORMAL: u32 = 0x80;
pub const IS_DIRECTORY: u32 = 0x10;
pub const IS_LINK: u32 = 0x400;
pub const IS_DEVICE: u32 = 0x40;

pub const IGNORE_CASE: u32 = 0x40;
pub const THROUGH_NO_LINK: u32 = 0x1000;

// locks
pub const FAILS_AT_ONCE: u32 = 1;
pub const LOCKS_ALONE: u32 = 2;
pub const IS_LOCKED: i32 = 33;

// kinds of information about a file, and of changes of it
pub const BASIC: i32 = 4;
pub const STANDARD: i32 = 5;
pub const RENAMED: i32 = 10;
pub const NAMES: i32 = 12;
pub const DELETED: i32 = 13;
pub const IDENTITY: i32 = 59;
pub const DELETED_AT_ONCE: i32 = 64;
pub const RENAMED_AT_ONCE: i32 = 65;
// of a volume
pub const DEVICE: i32 = 4;
pub const FILE_SYSTEM: i32 = 5;
pub const IS_REMOTE: u32 = 0x10;

/// The text of a path, by its length in bytes.
#[repr(C)]
pub struct Text {
    pub length: u16,
    pub room: u16,
    pub start: *const u16,
}

#[repr(C)]
pub struct Object {
    pub length: u32,
    pub root: *mut c_void,
    pub name: *const Text,
    pub attributes: u32,
    pub security: *const c_void,
    pub quality: *const c_void,
}

#[derive(Default)]
#[repr(C)]
pub struct Answer {
    pub status: usize,
    pub information: usize,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Basic {
    pub created: i64,
    pub read: i64,
    pub written: i64,
    pub changed: i64,
    pub attributes: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Standard {
    pub allocated: i64,
    pub size: i64,
    pub links: u32,
    pub is_deleted: u8,
    pub is_directory: u8,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Identity {
    pub volume: u64,
    pub low: u64,
    pub high: u64,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Device {
    pub kind: u32,
    pub characteristics: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct FileSystem {
    pub attributes: u32,
    pub longest: i32,
    pub length: u32,
    pub name: [u16; 32],
}

/// Where a lock begins.
#[repr(C)]
pub struct Start {
    pub status: usize,
    pub information: usize,
    pub low: u32,
    pub high: u32,
    pub event: *mut c_void,
}

impl Start {
    pub fn at(position: u64) -> Start {
        Start { status: 0, information: 0, low: position as u32, high: (position >> 32) as u32, event: null_mut() }
    }
}

/// What `Renamed` begins with; the name follows.
#[repr(C)]
pub struct Renamed {
    pub flags: u32,
    pub root: *mut c_void,
    pub length: u32,
}

#[link(name = "ntdll")]
unsafe extern "system" {
    pub fn NtCreateFile(
        made: *mut *mut c_void,
        access: u32,
        object: *const Object,
        answer: *mut Answer,
        size: *const i64,
        attributes: u32,
        share: u32,
        disposition: u32,
        options: u32,
        more: *const c_void,
        length: u32,
    ) -> i32;
    pub fn NtQueryInformationFile(
        file: BorrowedHandle<'_>,
        answer: *mut Answer,
        to: *mut c_void,
        length: u32,
        kind: i32,
    ) -> i32;
    pub fn NtSetInformationFile(
        file: BorrowedHandle<'_>,
        answer: *mut Answer,
        from: *const c_void,
        length: u32,
        kind: i32,
    ) -> i32;
    pub fn NtQueryVolumeInformationFile(
        file: BorrowedHandle<'_>,
        answer: *mut Answer,
        to: *mut c_void,
        length: u32,
        kind: i32,
    ) -> i32;
    pub fn NtQueryDirectoryFile(
        directory: BorrowedHandle<'_>,
        event: *mut c_void,
        call: *const c_void,
        context: *const c_void,
        answer: *mut Answer,
        to: *mut c_void,
        length: u32,
        kind: i32,
        is_single: u8,
        pattern: *const Text,
        restarts: u8,
    ) -> i32;
}

#[link(name = "kernel32")]
unsafe extern "system" {
    pub fn LockFileEx(file: BorrowedHandle<'_>, flags: u32, zero: u32, low: u32, high: u32, start: *mut Start) -> i32;
    pub fn UnlockFileEx(file: BorrowedHandle<'_>, zero: u32, low: u32, high: u32, start: *mut Start) -> i32;
}
