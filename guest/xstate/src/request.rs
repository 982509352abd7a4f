//! Requests of `ptrace(2)` for sets of registers. Pure.

/// `NT_X86_XSTATE` of `linux/elf.h`: all registers, in the format of the instruction XSAVE.
pub const XSTATE: usize = 0x202;
/// `PTRACE_GETREGSET` of `linux/ptrace.h`.
pub const GET: usize = 0x4204;
/// `PTRACE_SETREGSET` of `linux/ptrace.h`.
pub const SET: usize = 0x4205;

/// Whether these arguments of `ptrace` replace all registers.
#[must_use]
pub fn replaces_all(request: usize, set: usize) -> bool {
    request == SET && set == XSTATE
}

/// Whether these arguments of `ptrace` ask for a word, which the system call writes where its last
/// argument points, and the C library's function returns: `PTRACE_PEEKTEXT`, `PTRACE_PEEKDATA` and
/// `PTRACE_PEEKUSER`.
#[must_use]
pub fn reads_word(request: usize) -> bool {
    matches!(request, 1..=3)
}

/// Puts registers that are given over those that a process has. The rest stays.
///
/// `current` has `len` bytes of the process's. None if nothing is missing in `given`, or `current`
/// may be too small to have all registers.
#[must_use]
pub fn completed<'a>(given: &[u8], current: &'a mut [u8], len: usize) -> Option<&'a [u8]> {
    if given.len() >= len || len >= current.len() {
        return None;
    }
    let all = current.get_mut(..len)?;
    all.get_mut(..given.len())?.copy_from_slice(given);
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_that_were_cut_off_stay_as_they_are() {
        let mut current = [7; 10];
        assert_eq!(
            completed(&[1, 2], &mut current, 5),
            Some(&[1, 2, 7, 7, 7][..])
        );
    }

    #[test]
    fn nothing_is_added_to_all_registers() {
        let mut current = [7; 10];
        assert_eq!(completed(&[1, 2, 3], &mut current, 3), None);
        assert_eq!(completed(&[1, 2, 3, 4], &mut current, 3), None);
        assert_eq!(current, [7; 10]);
    }

    #[test]
    fn a_buffer_that_is_full_may_lack_some() {
        assert_eq!(completed(&[1], &mut [7; 10], 10), None);
    }

    #[test]
    fn other_requests_are_left_alone() {
        assert!(replaces_all(SET, XSTATE));
        assert!(!replaces_all(GET, XSTATE));
        // NT_PRSTATUS.
        assert!(!replaces_all(SET, 1));
        // PTRACE_PEEKUSER, PTRACE_POKETEXT.
        assert!(reads_word(3) && !reads_word(4) && !reads_word(0));
    }
}
