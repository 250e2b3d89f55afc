//! Capabilities: are the two that rules need there, and giving up all others.
//!
//! Is not: seccomp or a sandbox; those are the service manager's.
//!
//! Invariant: after [`keep_only_needed`] this thread, the threads it starts and the programs it
//! runs have CAP_NET_ADMIN and CAP_NET_RAW at most: the first for the queue and for removing the
//! rules at the end, the second for the raw sockets. After [`keep_none`] they have none.

use nix::errno::Errno;

use crate::error::FirewallError;

/// A capability by its number (include/uapi/linux/capability.h).
#[derive(Debug, Clone, Copy)]
struct Capability {
    name: &'static str,
    bit: u32,
}

const NEEDED: [Capability; 2] = [
    Capability {
        name: "CAP_NET_ADMIN",
        bit: 12,
    },
    Capability {
        name: "CAP_NET_RAW",
        bit: 13,
    },
];

/// `_LINUX_CAPABILITY_VERSION_3`: 64-bit sets in two halves.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

/// `struct __user_cap_data_struct`: 32 bits of each set.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The names of the needed capabilities that this thread lacks.
///
/// # Errors
/// The system call failed.
pub fn missing() -> Result<Vec<&'static str>, FirewallError> {
    let [low, _] =
        read().map_err(|errno| FirewallError::system("reading the capabilities", errno))?;
    Ok(NEEDED
        .iter()
        .filter(|capability| low.effective & (1 << capability.bit) == 0)
        .map(|capability| capability.name)
        .collect())
}

/// Fails unless both needed capabilities are there.
///
/// # Errors
/// Names those that are missing.
pub fn require() -> Result<(), FirewallError> {
    let missing = missing()?;
    if missing.is_empty() {
        Ok(())
    } else {
        Err(FirewallError::MissingCapability {
            missing: missing.join(" and "),
        })
    }
}

/// Gives up every other capability of this thread, for good, and of the programs that it runs; and
/// keeps the keys out of core dumps.
///
/// # Errors
/// A system call failed; nothing is worse than before.
pub fn keep_only_needed() -> Result<(), FirewallError> {
    let needed = NEEDED
        .iter()
        .fold(0, |bits, capability| bits | 1_u32 << capability.bit);
    keep(needed)
}

/// As [`keep_only_needed`], for a daemon that sets no rules: gives up every capability.
///
/// # Errors
/// As [`keep_only_needed`].
pub fn keep_none() -> Result<(), FirewallError> {
    keep(0)
}

/// Gives up all capabilities but these.
fn keep(needed: u32) -> Result<(), FirewallError> {
    let failed = |errno| FirewallError::system("giving up capabilities", errno);
    // The bounding set first: shrinking it needs a capability that goes with the next step. The
    // kernel says EINVAL past the last one.
    for bit in 0..64_u32 {
        if bit < 32 && needed & (1 << bit) != 0 {
            continue;
        }
        match drop_from_bounding_set(bit) {
            Ok(()) => {}
            // Past the last; or CAP_SETPCAP is missing, and then there is little to bound.
            Err(Errno::EINVAL | Errno::EPERM) => break,
            Err(errno) => return Err(failed(errno)),
        }
    }
    let [low, high] = read().map_err(failed)?;
    let kept = Sets {
        effective: low.effective & needed,
        permitted: low.permitted & needed,
        inheritable: low.inheritable & needed,
    };
    let none = Sets::default();
    let _ = high;
    write([kept, none]).map_err(failed)?;
    nix::sys::prctl::set_dumpable(false).map_err(failed)
}

fn read() -> Result<[Sets; 2], Errno> {
    let header = Header {
        version: CAPABILITY_VERSION,
        pid: 0,
    };
    let mut sets = [Sets::default(); 2];
    // SAFETY: `header` and `sets` have the layouts that version 3 of the call reads and writes, and
    // outlive it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_capget,
            std::ptr::from_ref(&header),
            sets.as_mut_ptr(),
        )
    };
    Errno::result(result).map(|_| sets)
}

fn write(sets: [Sets; 2]) -> Result<(), Errno> {
    let header = Header {
        version: CAPABILITY_VERSION,
        pid: 0,
    };
    // SAFETY: `header` and `sets` have the layouts that version 3 of the call reads, and outlive
    // it.
    let result =
        unsafe { libc::syscall(libc::SYS_capset, std::ptr::from_ref(&header), sets.as_ptr()) };
    Errno::result(result).map(drop)
}

fn drop_from_bounding_set(bit: u32) -> Result<(), Errno> {
    // SAFETY: this operation of prctl takes numbers only and touches no memory of the process.
    let result = unsafe {
        libc::prctl(
            libc::PR_CAPBSET_DROP,
            libc::c_ulong::from(bit),
            0 as libc::c_ulong,
            0 as libc::c_ulong,
            0 as libc::c_ulong,
        )
    };
    Errno::result(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn giving_up_keeps_the_two_and_nothing_else() {
        // On a thread of its own: capabilities are a thread's.
        let checked = std::thread::spawn(|| {
            let before = missing().expect("readable");
            keep_only_needed().expect("giving up is always allowed");
            let [low, high] = read().expect("readable");
            assert_eq!(low.permitted & !0x3000, 0);
            assert_eq!(high.permitted, 0);
            assert_eq!(missing().expect("readable"), before);
        });
        checked.join().expect("the checks hold");
    }

    #[test]
    fn a_daemon_that_sets_no_rules_keeps_nothing() {
        let checked = std::thread::spawn(|| {
            keep_none().expect("giving up is always allowed");
            let sets = read().expect("readable");
            assert!(sets.iter().all(|set| set.effective | set.permitted == 0));
        });
        checked.join().expect("the checks hold");
    }
}
