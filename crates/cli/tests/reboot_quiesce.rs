//! Graphics cards of QEMU are released and put back, in guests of Debian's general kernel.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::collections::HashMap;

use brisk_testkit::{Brisk, Files, GeneralKernel, brisk, brisk_of, qemu_devices, trial};
use libtest_mimic::{Arguments, Trial};
use serde_json::Value;

const BRISK: &str = env!("CARGO_BIN_EXE_brisk");

/// Functions of the guests' scripts: `state` shows what is to be as it was before, `part` what a
/// command says, and its status.
const FUNCTIONS: &str = r#"
part() {
    name=$1; shift
    status=0; "$@" >/tmp/out 2>/tmp/err </dev/null || status=$?
    echo "=== $name"; cat /tmp/out /tmp/err; echo "status $status"
}
driver() { basename "$(readlink "$1/driver" || echo none)"; }
state() {
    for module in bochs virtio_gpu; do
        if [ -e /sys/module/$module ]; then echo "$module loaded"; else echo "$module gone"; fi
    done
    for device in /sys/bus/pci/devices/* /sys/bus/virtio/devices/*; do
        case $(cat $device/class $device/device 2>/dev/null) in
            0x03*0x1111 | 0x0010*) echo "$(basename $device) $(driver $device)" ;;
        esac
    done
    for console in /sys/class/vtconsole/*; do
        grep -q 'frame buffer' $console/name && echo "console $(cat $console/bind)"
    done
    for card in /sys/class/drm/card?; do
        [ -e $card ] && echo "$(basename $card) $(basename "$(readlink $card/device)")"
    done
    echo
}
"#;

/// Stands for systemd: units are groups of processes, and files of a directory have their programs.
const SYSTEMCTL: &str = r#"#!/bin/sh
verb=$1; shift
while :; do case $1 in --property=*) all=$1; shift ;; --) shift ;; *) break ;; esac; done
group=/sys/fs/cgroup/system.slice/$1
active() { grep -q 'populated 1' $group/cgroup.events 2>/dev/null; }
case $verb in
    show)
        for unit; do
            group=/sys/fs/cgroup/system.slice/$unit
            if active; then state=active; else state=inactive; fi
            case $all in *Id*) echo "Id=$unit" ;; esac
            echo "ActiveState=$state"; echo
        done ;;
    stop)
        [ ! -e /units/$1.before-stop ] || . /units/$1.before-stop
        echo 1 >$group/cgroup.kill
        while active; do :; done
        [ ! -e /units/$1.after-stop ] || . /units/$1.after-stop ;;
    start)
        mkdir -p $group
        sh -c "echo \$\$ >$group/cgroup.procs; exec sh /units/$1" </dev/null >/dev/null 2>&1 &
        while ! active; do :; done ;;
esac
"#;

/// Makes that systemd, and starts `render.service`, which has a card open.
const SYSTEMD: &str = r#"
mkdir -p /run/systemd/system /units /sys/fs/cgroup /run/brisk-bin
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir /sys/fs/cgroup/system.slice
export PATH=/run/brisk-bin:$PATH
cp "$SYSTEMCTL" /run/brisk-bin/systemctl; chmod +x /run/brisk-bin/systemctl
echo 'exec sleep 1000 </dev/dri/card0' >/units/render.service
opened() { for fd in /proc/[0-9]*/fd/*; do readlink $fd; done 2>/dev/null | grep -c "$1"; }
systemctl start render.service
while [ "$(opened /dev/dri/card0)" = 0 ]; do :; done
units() { systemctl show --property=ActiveState -- render.service | grep Active; state; }
mkdir -p /etc/brisk
printf '[quiesce]\ntimeout = "3s"\n' >/etc/brisk/reboot.toml
"#;

/// A guest of two cards, with a script. Its modules can be loaded by modprobe.
struct Guest<'a> {
    kernel: &'a GeneralKernel,
    files: Files,
}

impl<'a> Guest<'a> {
    fn new(kernel: &'a GeneralKernel) -> Self {
        Self {
            kernel,
            files: Files::new(),
        }
    }

    fn command(&self) -> Brisk {
        let cards = qemu_devices(&["bochs-display", "virtio-gpu-pci"]);
        brisk!().args(self.kernel.options()).args(cards)
    }

    /// Parts of what a script shows.
    #[track_caller]
    fn parts(&self, script: &str) -> HashMap<String, String> {
        let systemctl = self.files.at("systemctl");
        std::fs::write(&systemctl, SYSTEMCTL).unwrap();
        let modules = self.kernel.modules();
        let modules = modules.display();
        let start = format!(
            "set -u; ln -sfn {modules} /lib/modules/$(uname -r); modprobe bochs; \
             modprobe virtio-gpu; SYSTEMCTL={systemctl}; B='{BRISK} reboot quiesce'\n"
        );
        let ended = self
            .command()
            .script(&format!("{start}{FUNCTIONS}{script}"));
        let text = ended.exits(0).text();
        let parts = text
            .split("=== ")
            .skip(1)
            .filter_map(|part| part.split_once('\n'));
        let parts: HashMap<_, _> = parts
            .map(|(name, part)| (name.to_owned(), part.trim().to_owned()))
            .collect();
        assert!(!parts.is_empty(), "{text}");
        parts
    }
}

/// A test in guests of the kernel.
type Test = fn(&GeneralKernel);

fn main() {
    let arguments = Arguments::from_args();
    let tests: [(&str, Test); 4] = [
        ("cards_are_released_and_put_back", released),
        ("who_holds_a_card_is_said_and_ended_by_force_alone", held),
        (
            "services_stop_and_start_again_also_after_failures",
            services,
        ),
        ("what_was_done_is_put_back_after_a_kill", killed),
    ];
    let kernel = GeneralKernel::own();
    let of = |(name, test): (&str, Test)| -> Trial {
        match &kernel {
            Ok(kernel) => {
                let kernel = kernel.clone();
                trial(name, None::<String>, move || test(&kernel))
            }
            Err(reason) => trial(name, Some(reason.clone()), || ()),
        }
    };
    let mut trials: Vec<_> = tests.into_iter().map(of).collect();
    trials.push(trial(
        "what_makes_no_sense_is_refused",
        None::<String>,
        refused,
    ));
    libtest_mimic::run(&arguments, trials).exit();
}

fn released(kernel: &GeneralKernel) {
    let script = r#"
part before state
part plan $B --dry-run --format json
part planned state
part done $B
part after state
part nodes ls /dev/dri
part again $B
part undone $B --undo
part back state
part nothing $B --undo
mkdir -p /etc/brisk
printf '[quiesce]\nunbind = ["0000:00:04.0"]\nkeep = ["bochs", "virtio_gpu"]\n' >/etc/brisk/reboot.toml
part unbind $B
part unbound state
part bind $B --undo
part bound state
"#;
    let parts = Guest::new(kernel).parts(script);
    let before = &parts["before"];
    for line in [
        "bochs loaded",
        "virtio_gpu loaded",
        "0000:00:04.0 bochs-drm",
        "console 1",
        "card0 0000:00:04.0",
        "card1 0000:00:05.0",
    ] {
        assert!(before.contains(line), "no {line} in {before}");
    }
    let (plan, status) = parts["plan"].split_once("\nstatus ").unwrap();
    assert_eq!(status, "0");
    let plan: Value = serde_json::from_str(plan).unwrap();
    let steps = plan["steps"].as_array().unwrap();
    let actions: Vec<_> = steps
        .iter()
        .map(|step| step["action"].as_str().unwrap())
        .collect();
    assert_eq!(actions, ["leave-framebuffer", "unload", "unload"]);
    assert_eq!(&parts["planned"], before);
    let done = &parts["done"];
    assert!(done.contains("Released: 2 devices."), "{done}");
    assert!(done.ends_with("status 0"), "{done}");
    let after = &parts["after"];
    for line in ["bochs gone", "virtio_gpu gone", "0000:00:04.0 none"] {
        assert!(after.contains(line), "no {line} in {after}");
    }
    assert!(
        !after.contains("card0") && !after.contains("console 1"),
        "{after}"
    );
    assert!(!parts["nodes"].contains("card"), "{}", parts["nodes"]);
    let again = &parts["again"];
    assert!(again.contains("everything is released already"), "{again}");
    assert!(parts["undone"].contains("Everything is as it was before."));
    assert_eq!(&parts["back"], before);
    assert!(parts["nothing"].contains("there is nothing to put back"));
    assert!(
        parts["unbind"].contains("Released: 1 device."),
        "{}",
        parts["unbind"]
    );
    let unbound = &parts["unbound"];
    assert!(unbound.contains("bochs loaded"), "{unbound}");
    assert!(unbound.contains("0000:00:04.0 none"), "{unbound}");
    assert!(parts["bind"].ends_with("status 0"), "{}", parts["bind"]);
    assert!(parts["bound"].contains("0000:00:04.0 bochs-drm"));
}

fn held(kernel: &GeneralKernel) {
    let script = r#"
part before state
sleep 1000 </dev/dri/card1 & pid=$!
while [ "$(readlink /proc/$pid/fd/0)" != /dev/dri/card1 ]; do :; done
part refused $B
part unchanged state
part lives kill -0 $pid
part forced $B --force --format json
part after state
part ended kill -0 $pid
part undone $B --undo
part back state
"#;
    let parts = Guest::new(kernel).parts(script);
    let refused = &parts["refused"];
    assert!(refused.contains("sleep (PID "), "{refused}");
    assert!(
        refused.contains("user root) has /dev/dri/card1 open, and is of no service"),
        "{refused}"
    );
    assert!(refused.ends_with("status 11"), "{refused}");
    assert_eq!(parts["unchanged"], parts["before"]);
    assert!(parts["lives"].ends_with("status 0"));
    let forced = &parts["forced"];
    assert!(forced.contains(r#""result": "released""#), "{forced}");
    assert!(parts["after"].contains("virtio_gpu gone"));
    assert!(!parts["ended"].ends_with("status 0"));
    let undone = &parts["undone"];
    assert!(
        undone.contains("was ended, and does not come back"),
        "{undone}"
    );
    assert_eq!(parts["back"], parts["before"]);
}

fn services(kernel: &GeneralKernel) {
    let script = r#"
part before units
part done $B
part after units
part undone $B --undo
part back units
# Something has the card open as soon as the service has stopped.
while [ "$(opened /dev/dri/card0)" = 0 ]; do :; done
echo 'sleep 1000 </dev/dri/card1 & while [ ! /proc/$!/fd/0 -ef /dev/dri/card1 ]; do :; done' \
    >/units/render.service.after-stop
part rolled $B
part rolled-back units
part no-record ls /run/brisk/reboot
for fd in /proc/[0-9]*/fd/0; do
    [ "$(readlink $fd)" != /dev/dri/card1 ] || { pid=${fd#/proc/}; kill ${pid%%/*}; }
done
while [ "$(opened /dev/dri/card1)" != 0 ]; do :; done
echo 'kill -INT $PPID; sleep 1000' >/units/render.service.after-stop
part interrupted $B
part interrupted-back units
rm /units/render.service.after-stop
part systemctl-failed env PATH=/usr/sbin:/nonexistent $B --format json
part unchanged units
"#;
    let parts = Guest::new(kernel).parts(&format!("{SYSTEMD}{script}"));
    let before = &parts["before"];
    assert!(
        before.starts_with("ActiveState=active\nbochs loaded"),
        "{before}"
    );
    let done = &parts["done"];
    assert!(done.contains("done: stop render.service"), "{done}");
    assert!(done.ends_with("status 0"), "{done}");
    let after = &parts["after"];
    assert!(
        after.starts_with("ActiveState=inactive\nbochs gone"),
        "{after}"
    );
    assert_eq!(&parts["back"], before);
    let rolled = &parts["rolled"];
    assert!(rolled.contains("undone: stop render.service"), "{rolled}");
    assert!(rolled.contains("sleep (PID "), "{rolled}");
    assert!(
        rolled.contains("everything is as it was before"),
        "{rolled}"
    );
    assert!(rolled.ends_with("status 11"), "{rolled}");
    assert_eq!(&parts["rolled-back"], before);
    assert!(!parts["no-record"].contains("quiesced.json"));
    let interrupted = &parts["interrupted"];
    assert!(interrupted.ends_with("status 130"), "{interrupted}");
    assert_eq!(&parts["interrupted-back"], before);
    let failed = &parts["systemctl-failed"];
    assert!(failed.contains("systemctl"), "{failed}");
    assert!(!failed.ends_with("status 0"), "{failed}");
    assert_eq!(&parts["unchanged"], before);
}

fn killed(kernel: &GeneralKernel) {
    let script = r#"
part before units
while [ "$(opened /dev/dri/card0)" = 0 ]; do :; done
# Before and after a service stops, and between modules that are loaded again.
for moment in before after; do
    echo 'kill -9 $PPID; exit 1' >/units/render.service.$moment-stop
    part killed-$moment $B
    rm /units/render.service.$moment-stop
    part refused-$moment $B
    part undone-$moment $B --undo
    part back-$moment units
    while [ "$(opened /dev/dri/card0)" = 0 ]; do :; done
done
part done $B
printf '#!/bin/sh\nkill -9 $PPID\nexec %s "$@"\n' "$(command -v modprobe)" >/run/brisk-bin/modprobe
chmod +x /run/brisk-bin/modprobe
part killed-undo $B --undo
rm /run/brisk-bin/modprobe
part undone $B --undo
part back units
"#;
    let parts = Guest::new(kernel).parts(&format!("{SYSTEMD}{script}"));
    let before = &parts["before"];
    for moment in ["before", "after"] {
        let of = |name: &str| &parts[&format!("{name}-{moment}")];
        assert!(of("killed").ends_with("status 137"), "{}", of("killed"));
        assert!(
            of("refused").contains("put it back first: brisk reboot quiesce --undo"),
            "{}",
            of("refused")
        );
        assert!(of("undone").ends_with("status 0"), "{}", of("undone"));
        assert_eq!(of("back"), before);
    }
    assert!(parts["done"].ends_with("status 0"), "{}", parts["done"]);
    assert!(
        parts["killed-undo"].ends_with("status 137"),
        "{}",
        parts["killed-undo"]
    );
    assert!(parts["undone"].ends_with("status 0"), "{}", parts["undone"]);
    assert_eq!(&parts["back"], before);
}

/// Without a guest: nothing is done.
fn refused() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().to_str().unwrap();
    let quiesce = || brisk_of!["reboot", "quiesce"];
    let text = quiesce().args(["--root", path]).exits(125).stderr;
    assert!(text.contains("add --dry-run"), "{text}");
    let text = quiesce()
        .args(["--root", path, "--dry-run"])
        .exits(0)
        .text();
    assert!(text.starts_with("Nothing to do"), "{text}");
    std::fs::create_dir_all(root.path().join("etc/brisk")).unwrap();
    let file = root.path().join("etc/brisk/reboot.toml");
    std::fs::write(&file, "[quiesce]\nmodule = ['x']\n").unwrap();
    let text = quiesce()
        .args(["--root", path, "--dry-run"])
        .exits(125)
        .stderr;
    assert!(
        text.contains("reboot.toml") && text.contains("line 2"),
        "{text}"
    );
    let text = quiesce().args(["--undo", "--dry-run"]).exits(2).stderr;
    assert!(text.contains("cannot be used with"), "{text}");
}
