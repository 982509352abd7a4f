//! Errors of kexec_file_load(2), and what each means.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// What to do after a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// The older call, kexec_load(2), may do it: it has no loader for an image of its own, and asks
    /// for no signature.
    OlderCall,
    /// The kernel does not trust the image. No other call may be used to get around that.
    Signature,
    /// It may succeed when there is more memory, as after services have stopped.
    Memory,
    /// It may succeed later.
    Later,
    /// Nothing but a change of what is in the way.
    Change,
}

/// Meaning of an error.
#[derive(Debug)]
pub struct Meaning {
    /// Number of the error.
    pub errno: Errno,
    /// Name of the error.
    pub name: &'static str,
    /// Meaning of the error for this call.
    pub meaning: &'static str,
    /// What to try.
    pub remedy: &'static str,
    /// What may be done next.
    pub course: Course,
}

/// An error of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal(Errno);

const fn meaning(
    errno: Errno,
    name: &'static str,
    meaning: &'static str,
    remedy: &'static str,
    course: Course,
) -> Meaning {
    Meaning {
        errno,
        name,
        meaning,
        remedy,
        course,
    }
}

/// What to try after errors of signatures.
const SIGN: &str = "install a kernel that its distribution has signed, or enrol the key of its \
                    signature: mokutil --import CERTIFICATE";

/// Errors that the kernel gives. Sources: kexec_file_load(2); `kernel/kexec_file.c`,
/// `kernel/kexec_core.c`, `arch/x86/kernel/kexec-bzimage64.c`,
/// `crypto/asymmetric_keys/verify_pefile.c` and `fs/kernel_read_file.c` of Linux.
pub const REFUSALS: &[Meaning] = &[
    meaning(
        Errno::NOSYS,
        "ENOSYS",
        "the running kernel has no kexec_file_load (CONFIG_KEXEC_FILE)",
        "boot a kernel with CONFIG_KEXEC_FILE once, through the firmware",
        Course::OlderCall,
    ),
    meaning(
        Errno::PERM,
        "EPERM",
        "this process may load no kernel: it lacks CAP_SYS_BOOT, loading is disabled, or the kernel \
         is locked down and the image not signed",
        "run it as root; look at kernel.kexec_load_disabled and at /sys/kernel/security/lockdown",
        Course::Change,
    ),
    meaning(
        Errno::BUSY,
        "EBUSY",
        "another program loads or unloads a kernel at this moment",
        "try it again when kdump's or another program's loading has ended",
        Course::Later,
    ),
    meaning(
        Errno::INVAL,
        "EINVAL",
        "the kernel takes no such image or command line: the command line is too long, the files need \
         more than half of the memory, or one is no regular file",
        "the kernel log (dmesg) may have more; shorten the command line, or make the initial RAM disk \
         smaller",
        Course::Change,
    ),
    meaning(
        Errno::NOEXEC,
        "ENOEXEC",
        "the file is no kernel that this call can load: not a 64-bit bzImage that can be relocated",
        "install the kernel again, or give its bzImage",
        Course::OlderCall,
    ),
    meaning(
        Errno::NOTSUP,
        "ENOTSUP",
        "this machine or kernel allows no kexec, as of an erratum of TDX",
        "restart it through its firmware",
        Course::Change,
    ),
    meaning(
        Errno::LIBBAD,
        "ELIBBAD",
        "the image's table of signatures is damaged",
        "install the kernel again",
        Course::Signature,
    ),
    meaning(
        Errno::KEYREJECTED,
        "EKEYREJECTED",
        "the image's signature is wrong, or its key is not trusted",
        SIGN,
        Course::Signature,
    ),
    meaning(
        Errno::NOPKG,
        "ENOPKG",
        "the image's signature uses an algorithm that the running kernel lacks",
        "load the module of that algorithm, or boot a kernel that has it",
        Course::Signature,
    ),
    meaning(
        Errno::NOKEY,
        "ENOKEY",
        "the running kernel has not the key of the image's signature",
        SIGN,
        Course::Signature,
    ),
    meaning(
        Errno::NODATA,
        "ENODATA",
        "the image is not signed, and the running kernel takes only signed ones",
        SIGN,
        Course::Signature,
    ),
    meaning(
        Errno::BADMSG,
        "EBADMSG",
        "the image's signature cannot be read",
        "install the kernel again",
        Course::Signature,
    ),
    meaning(
        Errno::MSGSIZE,
        "EMSGSIZE",
        "the image's signature ends too early",
        "install the kernel again",
        Course::Signature,
    ),
    meaning(
        Errno::NOMEM,
        "ENOMEM",
        "there is not enough memory for the kernel and the initial RAM disk, or it is in too small \
         pieces",
        "stop services that use much of it, or drop caches: sync; sysctl vm.drop_caches=3 \
         vm.compact_memory=1",
        Course::Memory,
    ),
    meaning(
        Errno::ADDRNOTAVAIL,
        "EADDRNOTAVAIL",
        "no range of memory is free where the new kernel has to be",
        "stop services that use much memory, or make the initial RAM disk smaller",
        Course::Memory,
    ),
    meaning(
        Errno::FBIG,
        "EFBIG",
        "a file is larger than the kernel reads",
        "make the initial RAM disk smaller",
        Course::Change,
    ),
    meaning(
        Errno::TXTBSY,
        "ETXTBSY",
        "another program is writing one of the files",
        "wait until the kernel's installation has ended, and try it again",
        Course::Later,
    ),
];

impl Refusal {
    /// That of an error of the system.
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        Self(Errno::from_raw_os_error(error.raw_os_error().unwrap_or(0)))
    }

    /// That of a number.
    #[must_use]
    pub const fn new(errno: Errno) -> Self {
        Self(errno)
    }

    /// Its meaning, if that is known.
    #[must_use]
    pub fn known(self) -> Option<&'static Meaning> {
        REFUSALS.iter().find(|meaning| meaning.errno == self.0)
    }

    /// What may be done next.
    #[must_use]
    pub fn course(self) -> Course {
        self.known().map_or(Course::Change, |known| known.course)
    }

    /// What to try.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        let unknown = "the kernel log (dmesg) may say more";
        self.known().map_or(unknown, |known| known.remedy)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known() {
            Some(known) => write!(formatter, "{}: {}", known.name, known.meaning),
            None => io::Error::from(self.0).fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_that_say_nothing_of_trust_allow_the_older_call() {
        let of = |course| {
            let all = REFUSALS.iter().filter(|one| one.course == course);
            all.map(|one| one.name).collect::<Vec<_>>()
        };
        let older = ["ENOSYS", "ENOEXEC"];
        assert_eq!(of(Course::OlderCall), older);
        let signature = [
            "ELIBBAD",
            "EKEYREJECTED",
            "ENOPKG",
            "ENOKEY",
            "ENODATA",
            "EBADMSG",
            "EMSGSIZE",
        ];
        assert_eq!(of(Course::Signature), signature);
        assert_eq!(of(Course::Memory), ["ENOMEM", "EADDRNOTAVAIL"]);
    }

    #[test]
    fn names_are_those_of_the_numbers() {
        // asm-generic/errno.h and errno-base.h, as x86 has them.
        let numbers = [
            ("ENOSYS", 38),
            ("EPERM", 1),
            ("EBUSY", 16),
            ("EINVAL", 22),
            ("ENOEXEC", 8),
            ("ENOTSUP", 95),
            ("ELIBBAD", 80),
            ("EKEYREJECTED", 129),
            ("ENOPKG", 65),
            ("ENOKEY", 126),
            ("ENODATA", 61),
            ("EBADMSG", 74),
            ("EMSGSIZE", 90),
            ("ENOMEM", 12),
            ("EADDRNOTAVAIL", 99),
            ("EFBIG", 27),
            ("ETXTBSY", 26),
        ];
        assert_eq!(numbers.len(), REFUSALS.len());
        for (name, number) in numbers {
            let refusal = Refusal::of(&io::Error::from_raw_os_error(number));
            let known = refusal.known().unwrap();
            assert_eq!(known.name, name);
            assert!(refusal.to_string().starts_with(&format!("{name}: ")));
            assert!(!refusal.remedy().is_empty());
        }
    }

    #[test]
    fn others_keep_the_words_of_the_system() {
        let refusal = Refusal::of(&io::Error::from_raw_os_error(5));
        assert_eq!(refusal.to_string(), "Input/output error (os error 5)");
        assert_eq!(refusal.course(), Course::Change);
    }
}
