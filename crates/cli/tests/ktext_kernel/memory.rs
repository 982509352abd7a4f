//! Memory that is added to a running machine: far away, so that the kernel maps it by an entry of PGDs that
//! it had not before.

use brisk_testkit::{NumaKernel, NumaMachine};

use crate::copies::check_equal;
use crate::machine::{expect, machine, run_and_ask, variant};

/// Options of the kernel for that.
pub(super) const CONFIG: [&str; 2] = ["--config", "variants/memory.config"];

/// At 512 GiB, which is as much as one such entry maps, on the second node.
const ADDED: &str = "\
    object_add memory-backend-ram,id=more,size=1G\n\
    device_add pc-dimm,id=dimm,memdev=more,node=1,addr=0x8000000000\n";

/// PGDs that processes had are kept when memory is added. Then one that lives on, new ones, and one that
/// has a kept PGD use more of it on its node than there was before.
const USED: &str = "\
    storm 3 >/dev/null\n\
    section before; cat ktext_repl/verify\n\
    look\n\
    until [ $(awk '/MemTotal/ { print $2 }' /proc/meminfo) -gt 1000000 ]; do :; done\n\
    section after; cat ktext_repl/verify\n\
    taskset 4 dd if=/dev/zero of=/more bs=1M count=700 2>/dev/null; section used; echo $?\n\
    storm 5 >/dev/null; section storm; echo $?\n\
    section verify; cat ktext_repl/verify";

pub(super) fn check(kernel: &NumaKernel) -> Result<(), String> {
    let machine = NumaMachine {
        append: "nokaslr memhp_default_state=online_kernel",
        options: &["-m", "slots=1,maxmem=900G"],
        ..machine(kernel, 2)
    };
    let console = run_and_ask(&machine, USED, ADDED)?.console;
    check_equal(&console, "before")?;
    for section in ["after", "verify"] {
        check_equal(&console, section)?;
    }
    for section in ["used", "storm"] {
        let status = console.section(section).trim();
        expect(status == "0", format!("{section}: {status}"))?;
    }
    Ok(())
}

pub(super) fn is_added() {
    check(&variant("ktext-memory", &CONFIG)).unwrap();
}
