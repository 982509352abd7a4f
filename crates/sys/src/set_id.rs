//! Children that give no file a set-ID bit and make no device nodes.
#![expect(unsafe_code, reason = "runs code between fork and exec")]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

/// fchmodat2(2), of Linux 6.6.
const FCHMODAT2: i64 = 452;
/// The bit of `O_TMPFILE` that is not `O_DIRECTORY` (open(2)).
const TMPFILE: u32 = 0o20_000_000;
/// Places of the mode among the arguments of the calls that change or give one.
const CHANGES: [(i64, u8); 6] = [
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];
/// Places of flags and mode of those that may make a file.
const OPENS: [(i64, u8, u8); 2] = [(libc::SYS_open, 1, 2), (libc::SYS_openat, 2, 3)];

/// Has the calls of a child fail that give a file the set-user-ID or set-group-ID bit, or make a
/// device node (`EPERM`). mkdir(2) gives no such bits by itself. With `openat2` that call is missing
/// (`ENOSYS`), for a filter cannot see its mode; programs fall back to openat(2) then.
///
/// The child can gain no privileges by programs that it executes (`PR_SET_NO_NEW_PRIVS`).
///
/// # Errors
/// If the filter cannot be made.
pub fn refuse_set_id(command: &mut Command, openat2: bool) -> io::Result<&mut Command> {
    let mut programs = vec![program(modes()?, libc::EPERM)?];
    if openat2 {
        let always = [(libc::SYS_openat2, Vec::new())];
        programs.push(program(always.into(), libc::ENOSYS)?);
    }
    let prepare = move || {
        // Only root has them. Without CAP_FSETID a file that is written to loses its bits.
        for right in [CapabilitySet::FSETID, CapabilitySet::MKNOD] {
            let _ = remove_capability_from_bounding_set(right);
        }
        programs.iter().try_for_each(|program| {
            apply_filter(program).map_err(|_| io::Error::from(io::ErrorKind::PermissionDenied))
        })
    };
    // SAFETY: between fork and exec only system calls are made; nothing is allocated.
    Ok(unsafe { command.pre_exec(prepare) })
}

type Rules = std::collections::BTreeMap<i64, Vec<SeccompRule>>;

fn modes() -> io::Result<Rules> {
    let bits = |mask: u32, value: u32| (SeccompCmpOp::MaskedEq(mask.into()), value.into());
    let set_id = [libc::S_ISUID, libc::S_ISGID].map(|bit| bits(bit, bit));
    let devices = [libc::S_IFCHR, libc::S_IFBLK].map(|kind| bits(libc::S_IFMT, kind));
    let mut rules = Rules::new();
    for (call, place) in CHANGES {
        let makes = [libc::SYS_mknod, libc::SYS_mknodat].contains(&call);
        let wanted = set_id
            .iter()
            .chain(makes.then_some(&devices).into_iter().flatten());
        for (op, value) in wanted {
            let rule = rule(&[(place, op.clone(), *value)])?;
            rules.entry(call).or_default().push(rule);
        }
    }
    for (op, value) in &set_id {
        let rule = rule(&[(1, op.clone(), *value)])?;
        rules.entry(libc::SYS_creat).or_default().push(rule);
    }
    for (call, flags, mode) in OPENS {
        // Without these flags the mode is whatever the register has.
        for flag in [libc::O_CREAT as u32, TMPFILE] {
            for (op, value) in &set_id {
                let (is_set, flag) = bits(flag, flag);
                let rule = rule(&[(flags, is_set, flag), (mode, op.clone(), *value)])?;
                rules.entry(call).or_default().push(rule);
            }
        }
    }
    Ok(rules)
}

fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> io::Result<SeccompRule> {
    let conditions = conditions.iter().map(|(place, op, value)| {
        SeccompCondition::new(*place, SeccompCmpArgLen::Dword, op.clone(), *value)
    });
    let conditions: Result<Vec<_>, _> = conditions.collect();
    conditions
        .and_then(SeccompRule::new)
        .map_err(io::Error::other)
}

fn program(rules: Rules, errno: i32) -> io::Result<BpfProgram> {
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno as u32),
        TargetArch::x86_64,
    );
    let program: Result<BpfProgram, Error> = filter
        .and_then(BpfProgram::try_from)
        .map_err(Error::Backend);
    program.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// What a shell says of a script in an empty directory, and the modes of the files there.
    fn run(script: &str, filtered: bool) -> (bool, Vec<u32>) {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(&dir);
        if filtered {
            refuse_set_id(&mut command, true).unwrap();
        }
        let output = command.output().unwrap();
        let files = fs::read_dir(&dir).unwrap();
        let modes = files.map(|file| file.unwrap().metadata().unwrap().permissions().mode());
        (
            output.status.success(),
            modes.map(|mode| mode & 0o7777).collect(),
        )
    }

    #[test]
    fn no_way_leads_to_a_set_id_bit() {
        let ways = [
            "touch a; chmod 4755 a",
            "touch a; chmod 2755 a",
            "umask 0; perl -e 'use Fcntl; sysopen(F, \"a\", O_CREAT|O_WRONLY, 04755) or exit 1'",
            "umask 0; perl -e 'use Fcntl; sysopen(F, \"a\", O_CREAT|O_RDWR, 02755) or exit 1'",
            // creat, mknod
            "umask 0; perl -e '$a = \"a\"; syscall(85, $a, 04755) >= 0 or exit 1'",
            "umask 0; perl -e '$a = \"a\"; syscall(133, $a, 0104755, 0) == 0 or exit 1'",
        ];
        for way in ways {
            let (done, modes) = run(way, false);
            assert!(done && modes.iter().any(|mode| mode & 0o6000 != 0), "{way}");
            let (done, modes) = run(way, true);
            assert!(
                !done && modes.iter().all(|mode| mode & 0o6000 == 0),
                "{way}"
            );
        }
    }

    #[test]
    fn everything_else_is_done() {
        let script = "umask 22; echo text > a && chmod 1755 a && mkdir b && mkfifo c && cat a";
        let (done, mut modes) = run(script, true);
        modes.sort_unstable();
        assert!(done);
        assert_eq!(modes, [0o644, 0o755, 0o1755]);
    }
}
