use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::super::fix::{Context, Wanted};
use super::super::text::Text;
use super::{Answer, Tester, harmless};

fn of(line: &str) -> Result<String, String> {
    let words = shlex::split(line).unwrap_or_default();
    let words: Vec<_> = words.into_iter().map(OsString::from).collect();
    let made = harmless(&words).map_err(|error| error.to_string())?;
    Ok(made[4..].join(" "))
}

#[test]
fn nothing_of_the_host_is_left() {
    let line = "qemu-system-x86_64 -enable-kvm -M q35,accel=kvm,kernel-irqchip=split,hpet=off \
                -cpu host,enforce,hv-relaxed -m 64G -boot menu=on,splash=/etc/logo.jpg \
                -mem-path /dev/hugepages -mem-prealloc -daemonize -pidfile /run/x.pid -D /tmp/log \
                -trace file=/tmp/t \
                -qmp unix:/run/q.sock,server=on -gdb tcp::1234 -vnc :0,password=on -incoming tcp:0:1 \
                -kernel /boot/vmlinuz -initrd /boot/initrd -append quiet \
                -object secret,id=s,file=/etc/key -object iothread,id=io \
                -blockdev driver=file,filename=/dev/sda,node-name=d \
                -device virtio-blk-pci,drive=d,iothread=io,bus=pcie.0,addr=0x4 \
                -netdev tap,id=n,ifname=tap0,script=/etc/up,vhost=on \
                -device virtio-net-pci,netdev=n,mac=52:54:00:00:00:01,romfile=/x \
                -chardev socket,id=c,path=/run/fs.sock -device vhost-user-fs-pci,chardev=c,tag=t,bus=pcie.0 \
                -device vfio-pci,host=01:00.0,id=gpu,addr=0x9 -tpmdev emulator,id=t,chardev=c \
                -device tpm-crb,tpmdev=t -device usb-host,hostbus=1,hostaddr=2,bus=xhci.0,port=1 \
                -serial file:/tmp/serial -fsdev local,id=f,path=/,security_model=none";
    let made = of(line).unwrap();
    assert_eq!(
        made,
        "-machine type=q35,hpet=off -cpu max,hv-relaxed \
         -blockdev driver=null-co,node-name=brisk1,size=1073741824,read-only=off \
         -device virtio-blk-pci,bus=pcie.0,addr=0x4,drive=brisk1 \
         -device virtio-net-pci,mac=52:54:00:00:00:01 -device virtio-rng-pci,bus=pcie.0 \
         -device virtio-rng-pci,id=gpu,addr=0x9 -device usb-mouse,bus=xhci.0,port=1"
    );
}

#[test]
fn what_makes_devices_by_itself_keeps_its_slots() {
    for (line, expected) in [
        (
            "kvm disk.img",
            "-drive if=ide,index=0,driver=null-co,size=1073741824,read-only=off",
        ),
        (
            "kvm -drive file=a.qcow2,format=qcow2,if=virtio,cache=none",
            "-drive if=virtio,driver=null-co,size=1073741824,read-only=off",
        ),
        (
            "kvm -drive file=a,if=none,id=d -drive if=pflash,file=OVMF.fd",
            "",
        ),
        (
            "kvm -nic tap,model=e1000,ifname=t0,mac=52:54:00:00:00:01",
            "-nic hubport,hubid=0,model=e1000,mac=52:54:00:00:00:01",
        ),
        (
            "kvm -nic none -usb -usbdevice tablet",
            "-nic none -usb -usbdevice tablet",
        ),
        (
            "kvm -net nic,model=rtl8139 -net user",
            "-net nic,model=rtl8139",
        ),
        (
            "kvm -device isa-serial,chardev=c,id=s -chardev pty,id=c",
            "-chardev null,id=brisk1 -device isa-serial,id=s,chardev=brisk1",
        ),
    ] {
        assert_eq!(of(line).as_deref(), Ok(expected), "{line}");
    }
}

#[test]
fn what_is_not_followed_is_said() {
    for (line, what) in [
        ("kvm -readconfig a.cfg", "-readconfig"),
        ("kvm -usbdevice disk:a.img", "disk:a.img"),
        (
            "kvm -machine q35,confidential-guest-support=sev0",
            "confidential",
        ),
        ("kvm -what 1", "-what"),
        (
            "kvm -device uefi-vars-x64,jsonfile=/etc/x",
            "uefi-vars-x64 is not known",
        ),
        ("kvm -device loader,file=/dev/zero", "loader is not known"),
        ("kvm -device guest-loader,addr=0,initrd=/x", "guest-loader"),
        ("kvm -device ipmi-bmc-sim,sdrfile=/x", "ipmi-bmc-sim"),
        (
            "kvm -device 'virtio-rng-pci,,romfile=/x'",
            "virtio-rng-pci,romfile",
        ),
        (
            "kvm -device 'virtio-rng-pci,,driver=vfio-pci,,host=1'",
            "vfio-pci",
        ),
        ("kvm -cpu help", "\"help\" is not followed"),
        ("kvm -smp ?", "\"?\""),
        ("kvm -device VGA,id=help", "\"help\""),
    ] {
        let error = of(line).unwrap_err();
        assert!(error.contains(what), "{line}: {error}");
    }
}

/// Of a device that is known, what may open something is left out, however it is written.
#[test]
fn properties_that_are_not_known_are_left_out() {
    for (line, expected) in [
        (
            r#"kvm -device '{"driver":"virtio-rng-pci","max-bytes=1,romfile":"/x","id":"a"}'"#,
            "-device virtio-rng-pci,id=a",
        ),
        (
            "kvm -global virtio-net-pci.romfile=/x -global driver=VGA,property=romfile,value=/x \
             -device virtio-net-pci,id=n",
            "-device virtio-net-pci,id=n",
        ),
        (
            "kvm -global ICH9-LPC.disable_s3=1",
            "-global ICH9-LPC.disable_s3=1",
        ),
        (
            "kvm -device virtio-input-host-pci,evdev=/dev/input/event0,addr=5 \
             -device u2f-passthru,hidraw=/dev/hidraw0,bus=u.0",
            "-device virtio-rng-pci,addr=5 -device usb-mouse,bus=u.0",
        ),
        ("kvm -overcommit mem-lock=on -action panic=none", ""),
        (
            "kvm -M pc,dumpdtb=/x,shim=/y,igvm-cfg=z,pcspk-audiodev=s",
            "-machine type=pc",
        ),
        (
            "kvm -audiodev wav,id=s,path=/x -device AC97,audiodev=s,addr=3",
            "-audiodev none,id=brisk1 -device AC97,addr=3,audiodev=brisk1",
        ),
    ] {
        assert_eq!(of(line).as_deref(), Ok(expected), "{line}");
    }
}

/// A program in the place of QEMU that refuses what has one of these words in it.
fn refusing(words: &str) -> (tempfile::TempDir, Tester) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("qemu");
    let script = format!(
        "#!/bin/sh\nread -r capabilities; read -r quit\necho '{{\"QMP\": {{}}}}'\ncase \"$*\" in {words}) echo 'warning: old' >&2; echo 'no slot' >&2; exit 1;; esac\n"
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let name = "QEMU 1.0".into();
    (dir, Tester { program, name })
}

fn text() -> Text {
    let line = "qemu-system-x86_64 -M pc,usb=off -name a,debug-threads=on -nodefaults \
                -device piix3-usb-uhci,id=u,addr=0x2 -device usb-tablet,bus=u.0";
    let words = shlex::split(line).unwrap_or_default();
    Text::Arguments(words.into_iter().map(OsString::from).collect())
}

#[test]
fn a_change_that_qemu_refuses_is_not_made() {
    let wanted = Wanted { rules: &[] };
    let rules = |fixed: &[brisk_lint::Finding]| -> Vec<&'static str> {
        fixed.iter().map(|one| one.rule).collect()
    };
    let (_dir, tester) = refusing("nothing");
    let (fixed, answer) = tester.fix(&text(), &Context::default(), wanted).unwrap();
    assert_eq!(rules(&fixed.applied), ["hpet", "usb-uhci"]);
    assert_eq!(
        answer,
        Some(Answer::Accepted {
            qemu: "QEMU 1.0".into()
        })
    );

    let (_dir, tester) = refusing("*qemu-xhci*");
    let (fixed, answer) = tester.fix(&text(), &Context::default(), wanted).unwrap();
    assert_eq!(rules(&fixed.applied), ["hpet"]);
    assert_eq!(
        answer,
        Some(Answer::Accepted {
            qemu: "QEMU 1.0".into()
        })
    );
    let (rule, reason) = &fixed.failed[0];
    assert_eq!(
        (*rule, &**reason),
        ("usb-uhci", "QEMU 1.0 refuses it: no slot")
    );

    // A program that prints something else has made nothing.
    let (dir, tester) = refusing("nothing");
    fs::write(dir.path().join("qemu"), "#!/bin/sh\necho help\n").unwrap();
    let (_, answer) = tester.fix(&text(), &Context::default(), wanted).unwrap();
    assert!(matches!(answer, Some(Answer::Unknown { .. })), "{answer:?}");

    // The guest as it is is refused, too: that says nothing of the change.
    let (_dir, tester) = refusing("*");
    let (fixed, answer) = tester.fix(&text(), &Context::default(), wanted).unwrap();
    assert_eq!(rules(&fixed.applied), ["hpet", "usb-uhci"]);
    let Some(Answer::Unknown { reason }) = answer else {
        panic!("{answer:?}");
    };
    assert!(
        reason.contains("does not make this guest: no slot"),
        "{reason}"
    );
}
